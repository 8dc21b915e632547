"""Columns of types that hold values in themselves: a message names the base type alone."""

import traceback
from datetime import UTC, datetime, timedelta
from decimal import Decimal

import polars as pl
import pytest

from opboost_ops.errors import ContractError, OpBoostError
from tests.bad_input.faults import ASKED, CANARY_TEXT, PLAN, opened, refused
from tests.federation import Workspace

#: As many of each as a table has rows: every one of them says that it leaked.
NAMES = [f"{CANARY_TEXT}-{i}" for i in range(400)]
SERIES = {
    "Enum": pl.Series(NAMES, dtype=pl.Enum(NAMES)),
    "List": pl.Series([[name] for name in NAMES], dtype=pl.List(pl.Enum(NAMES))),
    "Struct": pl.Series([dict.fromkeys(NAMES[:5], 1)] * 400),
    "Array": pl.Series([[name, name] for name in NAMES], dtype=pl.Array(pl.Enum(NAMES), 2)),
    "Binary": pl.Series([name.encode() for name in NAMES]),
    "Categorical": pl.Series(NAMES, dtype=pl.Categorical),
    "Datetime": pl.Series([datetime(2020, 1, 1, tzinfo=UTC)] * 400),
    "Duration": pl.Series([timedelta(seconds=48151623)] * 400),
    "Decimal": pl.Series([Decimal("48151623.421875")] * 400, dtype=pl.Decimal(38, 7)),
}
NESTED = ("List", "Struct", "Array")
INSIDE = ("categories", "shape=", "time_zone", "time_unit", "precision", "(", "{")


def planted(workspace: Workspace, party: str, column: str, kind: str) -> None:
    def change(table: pl.DataFrame) -> pl.DataFrame:
        values = SERIES[kind]
        whole = pl.concat([values] * (1 + table.height // len(values)))
        return table.with_columns(whole.head(table.height).alias(column))

    workspace.edit_table(party, change)


@pytest.mark.parametrize(
    ("party", "feature", "kind"),
    [
        *(("bank", "balance", kind) for kind in SERIES if kind != "Decimal"),
        *(("credit", "age", kind) for kind in ("Enum", "Struct")),
    ],
)
def test_a_feature_that_is_declared_numeric(
    workspace: Workspace, party: str, feature: str, kind: str
) -> None:
    planted(workspace, party, feature, kind)
    error = refused(
        workspace,
        f"{party}.check_table",
        ContractError,
        f"of type {kind}.",
        published=opened(party),
    )
    assert not any(word in error.problem for word in INSIDE)


@pytest.mark.parametrize("kind", ["Enum", "List", "Struct", "Decimal", "Binary"])
def test_ids(workspace: Workspace, kind: str) -> None:
    planted(workspace, "shop", "id", kind)
    error = refused(
        workspace, "shop.check_table", ContractError, f"of type {kind};", published=ASKED
    )
    assert not any(word in error.problem for word in INSIDE[:-2])


@pytest.mark.parametrize("kind", NESTED)
def test_a_feature_with_categories(workspace: Workspace, kind: str) -> None:
    planted(workspace, "shop", "payment", kind)
    error = refused(
        workspace, "shop.check_table", ContractError, f"of type {kind} holds no", published=ASKED
    )
    assert not any(word in error.problem for word in INSIDE[1:])


@pytest.mark.parametrize("kind", ["Enum", "Struct"])
def test_a_label_of_regression(workspace: Workspace, kind: str) -> None:
    label = workspace.declared.parties["credit"].label
    assert label is not None

    def change(data: dict) -> None:
        data["parties"]["credit"]["label"] = {"column": label.column, "task": "regression"}

    workspace.edit_yaml("federation.yaml", change)
    planted(workspace, "credit", label.column, kind)
    refused(workspace, "credit.check_table", ContractError, f"of type {kind}; regr", published=PLAN)


@pytest.mark.parametrize("kind", ["Enum", "List", "Decimal"])
def test_nothing_is_printed_on_the_way(
    workspace: Workspace, kind: str, capfd: pytest.CaptureFixture[str]
) -> None:
    planted(workspace, "bank", "balance", kind)
    try:
        workspace.all()
    except OpBoostError as error:
        told = "".join(traceback.format_exception(error))
    else:
        raise AssertionError("the run succeeded")
    told += "".join(capfd.readouterr())
    assert CANARY_TEXT not in told
    assert "48151623" not in told


@pytest.mark.parametrize("kind", [pl.Int128, pl.UInt128])
@pytest.mark.parametrize("column", ["balance", "id"])
def test_integers_of_128_bits(workspace: Workspace, column: str, kind: pl.DataType) -> None:
    """They were told as "missing, truncated or no Parquet file"."""
    workspace.edit_table(
        "bank", lambda t: t.with_columns(pl.int_range(t.height).cast(kind).alias(column))
    )
    refused(
        workspace,
        "bank.check_table",
        ContractError,
        f"keeps {column} as integers of 128 bits",
        "Write them with 64 bits",
        published=ASKED,
    )
