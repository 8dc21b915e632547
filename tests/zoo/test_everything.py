"""Odd tables through every entry point: nothing differs without a word."""

from pathlib import Path

import pytest

from tests.zoo import ALL
from tests.zoo.everything import everything
from tests.zoo.odd import Odd

#: Those that the fast tests put through everything.
FEW = {"point beside commas number"}
#: Those of the slow tests; all others are of the deployments' suite, and of `python -m tests.zoo`.
MORE = {
    "IDs twice", "codes as numbers", "two orders date", "short year date", "an open quote",
    "the head again", "a name twice", "no value", "a head alone", "decimal256 of 60 digits",
    "truncated", "no file",
    "folder, texts in a part, declared", "IDs of fractions", "decimal32(5, 2)", "IDs with digits",
    "pattern, an extra column", "undeclared cp1252", "list",
}  # fmt: skip


def marks(odd: Odd) -> list[pytest.MarkDecorator]:
    """When an odd table is put through everything."""
    if odd.name in FEW:
        return []
    return [pytest.mark.slow if odd.name in MORE else pytest.mark.deployment]


@pytest.mark.parametrize("odd", [pytest.param(odd, id=odd.name, marks=marks(odd)) for odd in ALL])
def test_an_odd_table_means_the_same_everywhere(odd: Odd, tmp_path: Path) -> None:
    outcomes = everything(odd, tmp_path / "table")
    assert {entry: of for entry, of in outcomes.items() if of not in ("accepted", "refused")} == {}


def test_names_are_unique_and_the_few_are_there() -> None:
    names = [odd.name for odd in ALL]
    assert len(names) == len(set(names)) >= 200
    assert set(names) > FEW | MORE
