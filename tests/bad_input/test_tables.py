"""Tables that do not keep their declaration."""

import json
import math
import shutil
from collections.abc import Callable

import numpy as np
import polars as pl
import pyarrow.feather as feather
import pytest

from opboost_ops.cli import check
from opboost_ops.errors import ConfigError, ContractError
from opboost_ops.pipeline.catalogue import STAGES
from opboost_ops.pipeline.steps import check_model
from opboost_ops.quality.validation import Report
from opboost_ops.tables.parquet import read_all
from tests.bad_input.faults import (
    ASKED,
    CANARY_NUMBER,
    CANARY_TEXT,
    PLAN,
    TableCheck,
    failing,
    message_is_right,
    refused,
    untouched,
)
from tests.federation import Workspace
from tests.fuzz.targets import CORPUS

Change = Callable[[pl.DataFrame], pl.DataFrame]


def first_rows(column: str, value: object, rows: int = 1) -> Change:
    """Put a value into the first rows of a column."""

    def change(table: pl.DataFrame) -> pl.DataFrame:
        planted = [value] * rows + table.get_column(column).to_list()[rows:]
        return table.with_columns(pl.Series(column, planted, strict=False))

    return change


@pytest.fixture
def workspace(workspace: Workspace) -> Workspace:
    """About to begin a second run, with nobody in it who was released before."""
    return workspace.replace_people()


FEATURES = {"credit": "age", "bank": "balance"}


@pytest.mark.parametrize("party", [pytest.param("credit", marks=pytest.mark.slow), "bank"])
def test_a_column_that_is_not_as_declared(workspace: Workspace, party: str) -> None:
    check, feature = TableCheck(workspace, party), FEATURES[party]
    check.refuses(lambda table: table.drop(feature), party, feature, "Add it")
    text = pl.lit(CANARY_TEXT).alias(feature)
    words = (f"{party}.{feature}", "declared numeric", "Convert")
    check.refuses(lambda table: table.with_columns(text), *words)
    for value in (math.nan, math.inf, -math.inf, None):
        check.fails(first_rows(feature, value), feature)
    check.fails(
        lambda t: t.with_columns(pl.Series(feature, [None] * t.height, pl.Float64)), feature
    )
    check.refuses(lambda t: t.with_columns(pl.Series(feature, [None] * t.height, pl.Null)), party)


@pytest.mark.parametrize("what", ["id", "label"])
def test_an_unknown_column(workspace: Workspace, what: str) -> None:
    def change(data: dict) -> None:
        if what == "id":
            data["id"]["column"] = "nobody"
        else:
            data["parties"]["credit"]["label"]["column"] = "nobody"

    workspace.edit_yaml("federation.yaml", change)
    refused(workspace, "credit.check_table", ContractError, "credit", "nobody", published=PLAN)


def constant(feature: str) -> pl.Expr:
    return pl.when(pl.col(feature).is_null()).then(None).otherwise(0.25).alias(feature)


def test_a_constant_column_of_ones_own_is_a_warning(
    workspace: Workspace, capsys: pytest.CaptureFixture[str]
) -> None:
    workspace.edit_table("credit", lambda t: t.with_columns(constant("age")))
    workspace.until("check_table", "credit")
    workspace.step("credit", "check_table")
    report = Report(workspace.home_json("credit", "quality/raw_table"))
    (finding,) = report.findings
    assert (finding.column, finding.severity, report.passed) == ("age", "warning", True)
    check.command(workspace.file)
    assert "age: warning: The column has two different values or more" in capsys.readouterr().out


def test_few_values_outside_bounds_are_clipped_and_counted_at_home(workspace: Workspace) -> None:
    workspace.edit_table("bank", first_rows("balance", CANARY_NUMBER, rows=10))
    summaries = workspace.all()
    assert outside_bounds(workspace) == 10
    assert "unexpected" not in str(summaries)
    exchange = b"".join(workspace.files("exchange").values())
    assert b"unexpected" not in exchange


def test_many_values_outside_bounds_fail_the_check(workspace: Workspace) -> None:
    workspace.edit_table("bank", first_rows("balance", CANARY_NUMBER, rows=40))
    refused(workspace, "bank.check_table", ContractError, "bank", "raw_table", published=ASKED)
    (finding,) = failing(workspace, "bank", "raw_table")
    assert (finding.column, finding.measure) == ("balance", "outside_share")
    assert outside_bounds(workspace) == 40


def outside_bounds(workspace: Workspace) -> int:
    report = Report(workspace.home_json("bank", "quality/raw_table"))
    (row,) = [row for row in report.profile if row["column"] == "balance"]
    return int(row["outside"])


@pytest.mark.parametrize("party", ["credit", "shop"])
def test_duplicate_and_empty_ids(workspace: Workspace, party: str) -> None:
    check = TableCheck(workspace, party)
    second = pl.read_parquet(check.path).get_column("id")[1]
    for value in (second, ""):
        check.fails(first_rows("id", value), "id")
    if party == "credit":
        check.fails(first_rows("id", None), "id")
    else:
        check.refuses(first_rows("id", None), "ID column", "Give every row")


def test_id_types_that_differ(workspace: Workspace) -> None:
    numbers = pl.col("id").str.extract(r"(\d+)").cast(pl.Int64)
    words = ("column id", "integer", "string", "convert")
    TableCheck(workspace, "bank").refuses(lambda table: table.with_columns(numbers), *words)


@pytest.mark.parametrize("party", ["credit", "shop"])
def test_a_file_that_is_no_table(workspace: Workspace, party: str) -> None:
    check = TableCheck(workspace, party)
    whole = check.path.read_bytes()
    check.refuses(lambda table: table.clear(), party, "no rows")
    half = len(whole) // 2
    for content in (whole[:half], f"id,{CANARY_TEXT}\n1,2\n".encode(), b"", None):
        check.refuses(content, party, "missing, truncated or not a Parquet")
    # A truncated middle with an intact footer.
    check.refuses(whole[:40] + b"\0" * (half - 40) + whole[half:], party)


def test_a_panic_of_a_library_is_told_like_any_foreign_error(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A panic is no Exception, and its text could show a cell."""

    def reads(_: object) -> None:
        read_all(CORPUS / "parquet" / "panic.parquet")

    workspace.until("preprocess", "bank")
    monkeypatch.setitem(STAGES, "preprocess", reads)
    with pytest.raises(ContractError) as failed:
        workspace.step("bank", "preprocess")
    assert "Panic" not in str(failed.value) and "unwrap" not in str(failed.value)
    assert failed.value.__cause__ is None and failed.value.__context__ is None


def test_a_table_rewritten_during_the_run(workspace: Workspace) -> None:
    """A feature holder reads its table in one stage, and works on a copy afterwards."""
    workspace.until("preprocess")
    workspace.edit_table("bank", lambda t: t.with_columns(balance=pl.lit(CANARY_TEXT)))
    workspace.step("bank", "preprocess")
    assert workspace.home("bank").joinpath("preprocessed.arrow").exists()


def test_a_site_that_names_no_table(workspace: Workspace) -> None:
    workspace.edit_yaml("bank/site.yaml", lambda site: site.update(tables={}))
    refused(
        workspace, "bank.check_table", ConfigError, "bank", "tables.credit_scoring", published=ASKED
    )


MEAN = {
    "type": "expect_column_values_to_be_between",
    "kwargs": {
        "column": "mean",
        "min_value": 1e9,
        "row_condition": 'column == "balance"',
        "condition_parser": "pandas",
    },
}


@pytest.mark.parametrize("elsewhere", [pytest.param(False, marks=pytest.mark.slow), True])
def test_what_a_party_expects_beyond_the_suite(workspace: Workspace, elsewhere: bool) -> None:
    """The file is found beside site.yaml, wherever the home folder is."""
    if elsewhere:
        # With what is in it: a state without its home is refused.
        shutil.move(workspace.folder / "bank" / "home", workspace.folder / "bank" / "work")
        workspace.declare("bank/site.yaml", home="work")
    (workspace.folder / "bank" / "expectations.yaml").write_text(json.dumps({"raw_table": [MEAN]}))
    refused(workspace, "bank.check_table", ContractError, "bank", "raw_table", published=ASKED)
    (finding,) = failing(workspace, "bank", "raw_table")
    assert (finding.column, finding.measure) == ("balance", "mean")


def test_a_failed_check_of_the_release_publishes_no_ranks(workspace: Workspace) -> None:
    """Between two boundaries, as when a party's own files are damaged."""
    workspace.until("check_release", "bank")
    path = workspace.home("bank") / "ranks.arrow"
    ranks = pl.from_arrow(feather.read_table(path))
    assert isinstance(ranks, pl.DataFrame)
    damaged = ranks.with_columns(pl.col("balance").replace(2, 1))
    feather.write_feather(damaged.to_arrow(), path)
    before, models = set(workspace.published()), untouched(workspace)
    with pytest.raises(ContractError, match="release") as caught:
        workspace.step("bank", "check_release")
    message_is_right(caught.value, "bank", "quality")
    assert [f.measure for f in failing(workspace, "bank", "release")] == ["unused_ranks"]
    with pytest.raises(ContractError):
        workspace.step("bank", "seal")
    assert set(workspace.published()) == before
    assert untouched(workspace) == models


@pytest.mark.slow
def test_a_model_that_predicts_nonsense_is_not_registered(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    workspace.until("check_model")
    before = untouched(workspace)
    monkeypatch.setattr(check_model, "predict", lambda _, matrix: np.full(len(matrix), math.nan))
    with pytest.raises(ContractError, match="model") as caught:
        workspace.step("credit", "check_model")
    message_is_right(caught.value, "credit", "quality")
    assert {f.measure for f in failing(workspace, "credit", "model")} == {"not_finite"}
    with pytest.raises(ContractError):
        workspace.step("credit", "register")
    assert untouched(workspace) == before


@pytest.mark.slow
def test_a_damaged_training_frame_is_not_trained_on(workspace: Workspace) -> None:
    workspace.until("check_frame")
    path = workspace.home("credit") / "frame.arrow"
    frame = feather.read_table(path)
    feather.write_feather(frame.slice(1), path)
    before, published = untouched(workspace), workspace.published()
    with pytest.raises(ContractError, match="training_frame"):
        workspace.step("credit", "check_frame")
    assert {f.measure for f in failing(workspace, "credit", "training_frame")} == {"rows"}
    with pytest.raises(ContractError):
        workspace.step("credit", "train")
    assert (untouched(workspace), workspace.published()) == (before, published)
