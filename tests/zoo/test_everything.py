"""Odd tables through every entry point: nothing differs without a word."""

from pathlib import Path

import pytest

from tests.zoo import ALL
from tests.zoo.everything import everything
from tests.zoo.odd import Odd

#: Those that also the fast tests put through everything: one of each kind.
FEW = {
    "point beside commas number", "codes as numbers", "two orders date", "short year date",
    "undeclared cp1252", "an open quote", "the head again", "a name twice", "no value",
    "a head alone", "decimal256 of 60 digits", "list", "truncated", "no file",
    "folder, texts in a part, declared", "IDs twice", "IDs of fractions",
    "decimal32(5, 2)", "IDs with digits", "pattern, an extra column",
}  # fmt: skip


@pytest.mark.parametrize(
    "odd",
    [
        pytest.param(odd, id=odd.name, marks=[] if odd.name in FEW else [pytest.mark.slow])
        for odd in ALL
    ],
)
def test_an_odd_table_means_the_same_everywhere(odd: Odd, tmp_path: Path) -> None:
    outcomes = everything(odd, tmp_path / "table")
    assert {entry: of for entry, of in outcomes.items() if of not in ("accepted", "refused")} == {}


def test_names_are_unique_and_the_few_are_there() -> None:
    names = [odd.name for odd in ALL]
    assert len(names) == len(set(names)) >= 200
    assert set(names) > FEW
