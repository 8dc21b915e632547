"""Columns of types that hold values in themselves: a message names the base type alone."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from decimal import Decimal

import polars as pl
import pytest

from tests.bad_input.faults import CANARY_TEXT, TableCheck
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


def planted(column: str, kind: str) -> Callable[[pl.DataFrame], pl.DataFrame]:
    def change(table: pl.DataFrame) -> pl.DataFrame:
        values = SERIES[kind]
        whole = pl.concat([values] * (1 + table.height // len(values)))
        return table.with_columns(whole.head(table.height).alias(column))

    return change


@pytest.fixture
def workspace(workspace: Workspace) -> Workspace:
    """About to begin a second run, with nobody in it who was released before."""
    return workspace.replace_people()


@pytest.mark.parametrize(("party", "feature"), [("bank", "balance"), ("credit", "age")])
def test_a_feature_that_is_declared_numeric(
    workspace: Workspace, party: str, feature: str, capfd: pytest.CaptureFixture[str]
) -> None:
    check = TableCheck(workspace, party)
    for kind in SERIES:
        if kind != "Decimal":
            error = check.refuses(planted(feature, kind), f"of type {kind}.")
            assert not any(word in error.problem for word in INSIDE)
    told = "".join(capfd.readouterr())
    assert CANARY_TEXT not in told and "48151623" not in told


def test_ids(workspace: Workspace) -> None:
    check = TableCheck(workspace, "shop")
    for kind in ("Enum", "List", "Struct", "Decimal", "Binary"):
        error = check.refuses(planted("id", kind), f"of type {kind};")
        assert not any(word in error.problem for word in INSIDE[:-2])


def test_a_feature_with_categories(workspace: Workspace) -> None:
    check = TableCheck(workspace, "shop")
    for kind in NESTED:
        error = check.refuses(planted("payment", kind), f"of type {kind} holds no")
        assert not any(word in error.problem for word in INSIDE[1:])


def test_a_label_of_regression(workspace: Workspace) -> None:
    label = workspace.declared.parties["credit"].label
    assert label is not None

    def change(data: dict) -> None:
        data["parties"]["credit"]["label"] = {"column": label.column, "task": "regression"}

    workspace.edit_yaml("federation.yaml", change)
    check = TableCheck(workspace, "credit")
    for kind in ("Enum", "Struct"):
        check.refuses(planted(label.column, kind), f"of type {kind}; regr")


def test_integers_of_128_bits(workspace: Workspace) -> None:
    """A cause of its own, not that of a damaged file."""
    check = TableCheck(workspace, "bank")
    for column, kind in (("balance", pl.Int128), ("id", pl.UInt128)):
        wide = pl.int_range(pl.len()).cast(kind).alias(column)
        check.refuses(
            lambda table, wide=wide: table.with_columns(wide),
            f"stores {column} as 128-bit integers",
            "Write them as 64-bit integers",
        )
