"""About how many people were asked: in an epoch, a person queried again counts once."""

import base64
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import sqlalchemy as sa

from opboost_ops.errors import PolicyError
from opboost_ops.exchange.sealed.ids import sort_order
from opboost_ops.exchange.sealed.parts import part_of
from opboost_ops.privacy.ledger import database as databases
from opboost_ops.privacy.ledger.database import Database
from opboost_ops.privacy.ledger.query_counts import Query, QueryCount, QueryCounts
from opboost_ops.privacy.ledger.tables import METADATA, lines_of, replace_rows


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    opened = Database(f"sqlite:///{tmp_path / 'ledger.sqlite'}")
    yield opened
    opened.close()


def points(*people: int) -> np.ndarray:
    """Sorted, with the message that is nobody's."""
    made = np.random.default_rng(5).integers(0, 256, (2000, 32), dtype=np.uint8)
    found = made[[0, *people]]
    return found[sort_order(found)]


class PartyState:
    def __init__(self, database: Database) -> None:
        self.asked = QueryCounts(database)
        self.kept = {"2026-11", "2026-12"}

    def count(
        self,
        people: np.ndarray,
        number: int,
        parts: int = 1,
        epoch: str = "2026-11",
        most: int = 10**9,
        federation: str = "credit",
    ) -> QueryCount:
        question = Query(federation, "lender", epoch, f"{number:064}", f"{number:016}")

        def require(found: QueryCount) -> None:
            if found.epoch > most:
                raise PolicyError("too many")

        cut = part_of(people, parts)
        pieces = (people[cut == part] for part in range(parts))
        return self.asked.count(question, pieces, parts, self.kept, require)


@pytest.mark.parametrize(("first", "then"), [(1, 1), (1, 8), (8, 1), (4, 16), (16, 16)])
def test_only_new_people_count_in_an_epoch(database: Database, first: int, then: int) -> None:
    state = PartyState(database)
    assert state.count(points(*range(1, 501)), 1, first) == QueryCount(500, 500)
    assert state.count(points(*range(301, 551)), 2, then) == QueryCount(550, 550)
    # A retry is the same query.
    assert state.count(points(*range(301, 551)), 2, then) == QueryCount(550, 550)
    assert state.count(points(*range(1, 501)), 3, first) == QueryCount(550, 550)
    # In another epoch everybody is new, and so are a label holder's in another federation.
    assert state.count(points(*range(1, 501)), 4, then, "2026-12") == QueryCount(500, 1050)
    assert state.count(points(1, 2), 5, federation="other") == QueryCount(552, 1052)


def test_what_is_refused_was_not_counted(database: Database) -> None:
    state = PartyState(database)
    state.count(points(1, 2, 3), 1, most=3)
    with pytest.raises(PolicyError):
        state.count(points(1, 2, 3, 4), 2, most=3)
    assert state.count(points(2, 3), 3, most=3) == QueryCount(3, 3)


def test_three_federations_of_a_label_holder_share_one_cap(database: Database) -> None:
    state = PartyState(database)
    for number, name in enumerate(("credit", "other")):
        state.count(points(*range(1, 41)), number, federation=name, most=100)
    with pytest.raises(PolicyError):
        state.count(points(*range(1, 41)), 3, federation="third", most=100)
    assert state.count(points(*range(1, 21)), 4, federation="third", most=100).epoch == 100
    (answered,) = state.asked.answered()
    assert answered.federations == {"credit", "other", "third"}
    assert answered.counted == QueryCount(100, 100)


def test_the_size_of_a_query_bounds_its_count_before_a_point_is_read(database: Database) -> None:
    state = PartyState(database)
    state.count(points(*range(1, 41)), 1)
    state.count(points(*range(1, 11)), 2, federation="other")

    def at_least(federation: str, people: int) -> QueryCount:
        question = Query(federation, "lender", "2026-11", "f" * 64, "f" * 16)
        return state.asked.at_least(question, people)

    # They may be the same people as before in this federation, and are others than elsewhere.
    assert at_least("credit", 40) == QueryCount(50, 50)
    assert at_least("credit", 45) == QueryCount(55, 55)
    assert at_least("third", 7) == QueryCount(57, 57)


def kept(database: Database) -> dict[str, int]:
    """Bytes of points by epoch."""
    found: dict[str, int] = {}
    with database.reading() as connection:
        for row in connection.execute(sa.select(METADATA.tables["asked_points"])):
            found[row.epoch] = found.get(row.epoch, 0) + len(base64.b64decode(row.points))
    return found


def test_points_are_kept_until_their_epoch_is_over_and_counts_for_ever(database: Database) -> None:
    state = PartyState(database)
    state.count(points(*range(1, 101)), 1, 4)
    state.count(points(*range(1, 101)), 2, 4)
    assert kept(database) == {"2026-11": 101 * 16}
    state.kept = {"2026-12"}
    assert state.count(points(1, 2), 3, epoch="2026-12") == QueryCount(2, 102)
    assert kept(database) == {"2026-12": 3 * 16}
    # Without them everybody is new again: it errs to the safe side.
    state.kept = {"2026-11", "2026-12"}
    assert state.count(points(1, 2), 4) == QueryCount(103, 105)


def test_a_ledger_without_these_tables_gets_them(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'ledger.sqlite'}"
    older = Database(url)
    with older.writing() as connection:
        for name in ("asked", "asked_points"):
            METADATA.tables[name].drop(connection)
    older.close()
    # Another process opens it.
    databases._VERIFIED.discard(url)
    opened = Database(url)
    assert PartyState(opened).count(points(1), 1) == QueryCount(1, 1)
    opened.close()


def test_a_backup_takes_them_along(database: Database, tmp_path: Path) -> None:
    PartyState(database).count(points(*range(1, 101)), 1)
    with database.reading() as connection:
        lines = {name: list(lines_of(connection, name)) for name in ("asked", "asked_points")}
    other = Database(f"sqlite:///{tmp_path / 'other.sqlite'}")
    with other.writing() as connection:
        for name, rows in lines.items():
            assert replace_rows(connection, name, rows) == 1
    assert PartyState(other).count(points(*range(51, 151)), 2) == QueryCount(150, 150)
    other.close()
