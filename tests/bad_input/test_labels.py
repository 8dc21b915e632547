"""Labels that cannot be learnt, and one that can although it is zero."""

import polars as pl
import pyarrow.feather as feather
import pytest

from opboost_ops.errors import ContractError
from opboost_ops.quality.validation import Report
from tests.bad_input.faults import CANARY_TEXT, PLAN, failing, refused
from tests.federation import Workspace


def test_a_class_that_is_not_declared(workspace: Workspace) -> None:
    def change(table: pl.DataFrame) -> pl.DataFrame:
        text = table.get_column("default").cast(pl.String).to_list()
        return table.with_columns(pl.Series("default", [CANARY_TEXT if t == "1" else t
                                                        for t in text]))  # fmt: skip

    workspace.edit_table("credit", change)
    refused(workspace, "credit.check_table", ContractError, "credit", published=PLAN)
    (finding,) = failing(workspace, "credit", "raw_table")
    assert (finding.column, finding.measure) == ("default", "undeclared")


def test_text_where_regression_needs_numbers(workspace: Workspace) -> None:
    workspace.edit_yaml(
        "federation.yaml",
        lambda d: d["parties"]["credit"].update(
            label={"column": "employment", "task": "regression"},
            features={"age": d["parties"]["credit"]["features"]["age"]},
        ),
    )
    refused(
        workspace,
        "credit.check_table",
        ContractError,
        "employment",
        "regression needs numbers",
        published=PLAN,
    )


@pytest.mark.parametrize("kind", [pl.Float64, pl.Boolean])
def test_label_zero_is_a_class_and_not_missing(workspace: Workspace, kind: pl.DataType) -> None:
    """A truth test instead of a null test would drop all of them."""
    workspace.edit_table("credit", lambda t: t.with_columns(pl.col("default").cast(kind)))
    table = pl.read_parquet(workspace.table_path("credit"))
    workspace.until("check_frame")
    report = Report(workspace.home_json("credit", "quality/raw_table"))
    assert report.passed
    (row,) = [row for row in report.profile if row["column"] == "default"]
    assert (row["undeclared"], row["missing"]) == (0, 0)
    label = []
    for name in ("frame", "holdout_ranks"):
        frame = feather.read_table(workspace.home("credit") / f"{name}.arrow")
        label += frame.column("label").to_pylist()
    others = [
        pl.read_parquet(workspace.table_path(party)).get_column("id") for party in ("shop", "bank")
    ]
    common = table.filter(pl.col("id").is_in(others[0]) & pl.col("id").is_in(others[1]))
    expected = common.get_column("default").cast(pl.Int64).to_list()
    assert sorted(label) == sorted(expected)
    assert label.count(0.0) > len(label) / 2
