"""People by the two halves of their hashes; the first halves may be equal."""

from pathlib import Path

import numpy as np
import pytest

from opboost_ops.privacy.ledger.database import Database
from opboost_ops.privacy.people import Forgotten, Match, People, places
from opboost_ops.tables.spill.arrays import Scratch


def hashed(*pairs: tuple[int, int]) -> People:
    high, low = zip(*pairs, strict=True)
    return People(np.array(high, np.uint64), np.array(low, np.uint64))


LISTED = hashed((1, 5), (2, 7), (2, 3), (2, 9), (4, 1))
WANTED = hashed((1, 6), (2, 3), (2, 8), (2, 9), (4, 1))


@pytest.fixture
def scratch(tmp_path: Path) -> Scratch:
    return Scratch(tmp_path, 1 << 20)


def test_people_are_found_by_both_halves(scratch: Scratch) -> None:
    assert places(scratch, LISTED, WANTED).tolist() == [-1, 2, -1, 3, 4]


def test_a_match_is_of_the_people_that_are_asked_for(scratch: Scratch) -> None:
    match = Match(scratch)
    for _ in range(2):
        assert match.places(LISTED, WANTED).tolist() == [-1, 2, -1, 3, 4]
        assert match.places(WANTED, WANTED).tolist() == list(range(5))


def test_forgotten_people_are_found_by_both_halves(tmp_path: Path) -> None:
    database = Database(f"sqlite:///{tmp_path / 'ledger.sqlite'}")
    forgotten = Forgotten(database, lambda: bytes(32))
    assert forgotten.add([f"{2:016x}{9:016x}", f"{4:016x}{2:016x}"]) == 2
    assert forgotten.among(LISTED).tolist() == [False, False, False, True, False]
    database.close()
