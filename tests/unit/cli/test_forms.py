"""Every listing of the command line for programs: as one line of JSON, or as CSV."""

import csv
import io
import json
from collections.abc import Sequence

import pytest

from tests.federation import FIRST_RUN, Workspace
from tests.unit.cli.conftest import Opboost

LISTINGS = (
    ("models", "list", "credit"),
    ("ledger", "show", "bank"),
    ("ledger", "check", "bank"),
    ("audit", "show", "bank"),
    ("store", "list", "bank"),
)


def of(workspace: Workspace, listing: Sequence[str]) -> list[object]:
    """A listing's words, with the folder of its party."""
    return [*listing[:2], *(workspace.folder / party for party in listing[2:])]


def table(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text)))


@pytest.mark.parametrize("listing", LISTINGS, ids=[" ".join(words[:2]) for words in LISTINGS])
def test_every_listing_has_both_forms(
    trained_once: Workspace, opboost: Opboost, listing: Sequence[str]
) -> None:
    asked = of(trained_once, listing)
    told = opboost(*asked, "--json").output
    assert told.count("\n") == 1
    found = json.loads(told)
    lines = found if isinstance(found, list) else next(v for v in found.values() if type(v) is list)
    rows = table(opboost(*asked, "--csv").output)
    assert len(rows) == len(lines)
    assert rows or listing[:2] == ("ledger", "check")
    error = opboost(*asked, "--json", "--csv").error
    assert "--json and --csv exclude each other" in error


def test_a_table_of_versions_has_a_column_for_each_metric(
    trained_once: Workspace, opboost: Opboost
) -> None:
    asked = ("models", "list", trained_once.folder / "credit")
    (row,) = table(opboost(*asked, "--csv").output)
    (line,) = json.loads(opboost(*asked, "--json").output)
    assert (row["version"], row["champion"]) == (FIRST_RUN, "True")
    assert row["why"] == line["decision"]["why"]
    metrics = {
        f"{mode} {name}": value
        for mode, of in line["metrics"].items()
        for name, value in of.items()
    }
    assert metrics
    assert {name: float(row[name]) for name in metrics} == metrics
