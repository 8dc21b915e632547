"""Draws: held back and charged in one transaction, found again after a crash, refused when lost."""

import sqlite3
import uuid
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from opboost_ops.config.policy import Policy
from opboost_ops.domain import Domain
from opboost_ops.errors import BudgetError, ConfigError, ContractError
from opboost_ops.mechanisms import GlobalMap
from opboost_ops.privacy.accountant import accounts
from opboost_ops.privacy.cells import Cells
from opboost_ops.privacy.database import Database
from opboost_ops.privacy.draws import Asked, Draws
from opboost_ops.privacy.events import Release
from opboost_ops.privacy.forgotten import Forgotten, cell_hashes
from opboost_ops.privacy.ledger import Ledger
from opboost_ops.privacy.loss import loss_curve
from opboost_ops.privacy.lost import accept, lost_states
from opboost_ops.privacy.migrations import upgrade

COLUMN, CONTEXT, TEN = uuid.UUID(int=7), bytes(32), Domain(1, 10)
CURVE = loss_curve(GlobalMap(epsilon=0.5), TEN)
FACTS = {"federation": "credit", "run": "0" * 16, "party": "bank", "receiver": "lender"}


class Party:
    """Ledger and cell states in a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.url = f"sqlite:///{folder / 'ledger.sqlite'}"
        self.cells = Cells(folder / "cells")
        self.kept: list[list[int]] = []

    def take(
        self, values: Sequence[int], most: int | None, column: uuid.UUID = COLUMN, **more: Any
    ) -> list[int]:
        return self.take_all({column: values}, most, **more)[0]

    def take_all(
        self,
        columns: dict[uuid.UUID, Sequence[int]],
        most: int | None,
        kept: list[list[int]] | None = None,
    ) -> list[list[int]]:
        asked = [
            Asked(
                column=column,
                charge=f"f{column.int}",
                context=CONTEXT,
                people=np.arange(1, len(values) + 1, dtype=np.uint64),
                values=np.array(values),
                domain=TEN,
                most=most,
                loss=CURVE,
                kept=None if kept is None else np.array(kept[i]),
            )
            for i, (column, values) in enumerate(columns.items())
        ]

        def keep(held: Sequence[np.ndarray]) -> None:
            self.kept = [part.tolist() for part in held]

        draws = Draws(Database(self.url), self.cells, self.folder / "forgotten.json")
        return [part.tolist() for part in draws.take(asked, FACTS, None, keep)]

    def lines(self) -> list[Release]:
        return Ledger(Database(self.url)).releases()

    def worst(self, column: uuid.UUID = COLUMN) -> tuple[int, int]:
        found = Ledger(Database(self.url)).worst(column, CONTEXT.hex()[:16])
        return found.values, found.number

    def state(self, column: uuid.UUID = COLUMN) -> Path:
        return self.cells.path(column, CONTEXT.hex()[:16])


@pytest.fixture
def party(tmp_path: Path) -> Party:
    return Party(tmp_path)


def test_only_new_inputs_are_a_new_draw(party: Party) -> None:
    assert party.take([1, 2, 3], None) == [1, 2, 3]
    assert party.take([1, 2, 3], None) == [1, 2, 3]
    assert party.worst() == (1, 1)
    assert party.take([1, 2, 4], None) == [1, 2, 4]
    assert party.take([1, 2, 3], None) == [1, 2, 3]
    assert party.worst() == (2, 2)
    # A part of the people is another draw, though each cell gives an output that it gave before.
    assert party.take([1, 2], None) == [1, 2]
    assert party.worst() == (3, 3)


def test_every_line_says_its_number_and_its_cap(party: Party) -> None:
    for values, most in (([1, 1], None), ([2, 1], 2), ([3, 1], 2), ([3, 2], 4)):
        party.take(values, most)
    lines = [line.draw for line in party.lines()]
    told = [(d.number, d.most, d.worst, d.added) for d in lines if d is not None]
    # The third draw is held to the first two values: nothing new was asked for, and none counted.
    assert told == [(1, None, 1, 1), (2, 2, 2, 1), (3, 4, 3, 1)]


def crash(party: Party, monkeypatch: pytest.MonkeyPatch, after: int) -> None:
    """Charging dies after so many files."""
    charge, done = Cells.charge, []

    def failing(self: Cells, *arguments: Any) -> None:
        if len(done) == after:
            raise OSError("killed")
        done.append(charge(self, *arguments))

    monkeypatch.setattr(Cells, "charge", failing)


@pytest.mark.parametrize("after", [0, 1, 2])
def test_a_crash_leaves_it_charged_and_the_retry_repeats_it(
    party: Party, monkeypatch: pytest.MonkeyPatch, after: int
) -> None:
    other = uuid.UUID(int=8)
    party.take_all({COLUMN: [1, 1], other: [1, 1]}, 2)
    with monkeypatch.context() as patch:
        crash(party, patch, after)
        if after < 2:
            with pytest.raises(OSError, match="killed"):
                party.take_all({COLUMN: [2, 1], other: [2, 1]}, 2)
        else:
            party.take_all({COLUMN: [2, 1], other: [2, 1]}, 2)
    kept = party.kept
    assert kept == [[2, 1], [2, 1]]
    # Another run comes in between, and moves what is released of person 1.
    party.take_all({COLUMN: [5, 1], other: [1, 3]}, 2)
    held = party.take_all({COLUMN: [2, 1], other: [2, 1]}, 2, kept=kept)
    assert held[0] == [2, 1] or after == 0
    for column in (COLUMN, other):
        state = party.cells.load(party.state(column))
        worst, number = party.worst(column)
        assert state.changes().max() <= worst <= 2
        mark = party.cells.mark(party.state(column))
        assert mark is not None
        assert mark.number == number


def test_a_budget_refuses_before_a_cell_is_charged(party: Party) -> None:
    party.take([1, 2], None)
    before = party.state().read_bytes()

    def refuse(*_: Any) -> None:
        raise BudgetError("enough")

    draws = Draws(Database(party.url), party.cells, party.folder / "forgotten.json")
    asked = Asked(COLUMN, "f7", CONTEXT, np.array([1], np.uint64), np.array([9]), TEN, None, CURVE)
    with pytest.raises(BudgetError, match="enough"):
        draws.take([asked], FACTS, refuse, lambda _: None)
    assert party.state().read_bytes() == before
    assert party.worst() == (1, 1)


def spoilt(party: Party, how: str, old: bytes) -> None:
    if how == "gone":
        party.state().unlink()
    elif how == "older":
        party.state().write_bytes(old)
    else:
        party.state().write_bytes(b"no Parquet")


@pytest.mark.parametrize("how", ["gone", "older", "damaged"])
def test_a_lost_state_is_refused_until_its_owner_accepts_it(party: Party, how: str) -> None:
    party.take([1, 1], 2)
    old = party.state().read_bytes()
    party.take([2, 1], 2)
    spoilt(party, how, old)
    with pytest.raises(BudgetError, match="lost, cannot be read, or are older"):
        party.take([3, 1], 2)
    assert party.worst() == (2, 2)
    (lost,) = lost_states(party.lines(), party.cells)
    assert lost.held == (1 if how == "older" else 0)
    rule = {"mechanisms": ["global_map"], "max_changes": 2}
    policy = Policy.model_validate({"version": 1, "party": "bank", "features": {"f7": rule}})
    (line,) = accept(Database(party.url), party.cells, policy, ())
    assert line.draw is not None
    assert (line.kind, line.draw.added, line.draw.worst) == ("accepted", 2, 4)
    assert lost_states(party.lines(), party.cells) == []
    # From here on whatever is asked for, no cell goes beyond what was charged: 1, 2, and two more.
    released = {1, 2} | {party.take([value, 1], 2)[0] for value in (3, 4, 5, 6)}
    assert len(released) <= 4 == party.worst()[0]
    (account,) = accounts(party.lines()).values()
    assert float(account.whole) == pytest.approx(4 * float(CURVE.loss[-1]))


def test_a_state_that_is_ahead_brings_its_line(party: Party) -> None:
    """The ledger alone was put back from before two draws: nothing that was charged is lost."""
    party.take([1, 1], None)
    backup = (party.folder / "ledger.sqlite").read_bytes()
    party.take([2, 1], None)
    party.take([3, 1], None)
    (party.folder / "ledger.sqlite").write_bytes(backup)
    assert party.take([4, 1], None) == [4, 1]
    assert party.worst() == (4, 4)
    assert [line.draw.added for line in party.lines() if line.draw] == [1, 2, 1]


def test_nobody_comes_back_from_the_list_of_the_forgotten(party: Party) -> None:
    party.take([1, 2, 3], 1)
    secret = bytes(range(32))
    forgotten = Forgotten(party.folder / "forgotten.json")
    assert forgotten.add(secret, "P1", [2])
    Ledger(Database(party.url)).complete(forgotten)
    with pytest.raises(ContractError, match="forgotten since this run"):
        party.take([1, 2, 3], 1)
    # The list is lost, or an older copy is put back: it is completed, and the run refused.
    (party.folder / "forgotten.json").unlink()
    with pytest.raises(ContractError, match="had lost some"):
        party.take([1, 2], 1)
    again = Forgotten(party.folder / "forgotten.json")
    assert again.entries() == forgotten.entries()
    import pyarrow as pa

    assert again.keep(pa.array(["P1", "P2"]), "string").tolist() == [False, True]


def test_a_list_is_put_together_with_a_copy_and_never_replaced(tmp_path: Path) -> None:
    import pyarrow as pa

    one, other = Forgotten(tmp_path / "a.json"), Forgotten(tmp_path / "b.json")
    one.add(bytes(32), "P1")
    other.add(bytes(range(32)), "P2")
    one.merge(other.entries())
    one.add(bytes(32), 3)
    read = Forgotten(tmp_path / "a.json")
    ids = pa.array(["P1", "P2", "P3"])
    assert read.keep(ids, "string").tolist() == [False, False, True]
    assert read.keep(pa.array([3, 4]), "integer").tolist() == [False, True]


def test_a_persons_hashes_are_those_under_every_secret_and_type() -> None:
    secrets = (bytes(32), bytes(range(32)))
    assert len(cell_hashes(secrets, ["lender", ":linkable"], ["12", 12])) == 8


@pytest.fixture
def former(party: Party) -> Callable[[list[dict[str, Any]]], None]:
    """A ledger as version 1 wrote it."""

    def write(lines: list[dict[str, Any]]) -> None:
        connection = sqlite3.connect(party.folder / "ledger.sqlite")
        connection.executescript(
            "CREATE TABLE releases (id INTEGER NOT NULL PRIMARY KEY, recorded_at VARCHAR(40) NOT "
            "NULL, artifact VARCHAR(64) NOT NULL, feature VARCHAR(160) NOT NULL, event JSON NOT "
            "NULL, UNIQUE (artifact, feature));"
            "CREATE TABLE commits (artifact VARCHAR(64) NOT NULL PRIMARY KEY, committed_at "
            "VARCHAR(40) NOT NULL);"
        )
        for i, line in enumerate(lines):
            event = Release(
                **{**FACTS, **line},
                kind="ranks",
                artifact=f"{i:064}",
                account="local_dp",
                feature="f7",
                column=COLUMN,
                cells=CONTEXT.hex()[:16],
                loss=CURVE,
                rows=2,
            )
            text = event.model_dump_json(exclude={"draw"})
            row = ("2026-01-01T00:00:00+00:00", f"{i:064}", "f7", text)
            connection.execute(
                "INSERT INTO releases (recorded_at, artifact, feature, event) VALUES (?, ?, ?, ?)",
                row,
            )
        connection.commit()
        connection.close()

    return write


@pytest.mark.parametrize("counted", [1, 5])
def test_a_former_ledger_is_taken_over_as_if_no_cap_had_been(
    party: Party, former: Callable[[list[dict[str, Any]]], None], counted: int
) -> None:
    """Three runs, of which two show equal outputs: three; more where a cell has released more."""
    runs = [{"run": f"{i:016}", "draws": name} for i, name in enumerate(("a", "b", "a"))]
    # A training and a held-out artifact of a run are one release.
    former([*runs, runs[-1]])
    who = np.array([1, 2], dtype=np.uint64)
    for value in range(1, counted + 1):
        party.cells.charge(COLUMN, CONTEXT, who, np.array([value, 1]), TEN)
    before = (party.folder / "ledger.sqlite").read_bytes()
    database = Database(party.url)
    upgrade(database, party.cells)
    worst = max(3, counted)
    assert party.worst() == (worst, 1)
    (account,) = accounts(party.lines()).values()
    assert float(account.whole) == pytest.approx(worst * float(CURVE.loss[-1]))
    assert account.releases == 3
    backup = sqlite3.connect(party.folder / "ledger.sqlite.before-2")
    old = sqlite3.connect(":memory:")
    (party.folder / "copy").write_bytes(before)
    assert len(backup.execute("SELECT * FROM releases").fetchall()) == 4
    assert not backup.execute("SELECT name FROM sqlite_master WHERE name='draws'").fetchall()
    old.close()
    (kept,) = (party.folder / "cells.before-2").glob("*.parquet")
    assert party.cells.mark(kept) is None
    # Under a cap of two nothing more is added: three or five are there already.
    party.take([9, 1], 2)
    assert party.worst() == (worst, 2)
    upgrade(Database(party.url), party.cells)
    assert len(list(party.folder.glob("ledger.sqlite.before*"))) == 1


def test_a_former_state_that_is_not_there_is_lost(
    party: Party, former: Callable[[list[dict[str, Any]]], None]
) -> None:
    former([{"run": "0" * 16, "draws": "a"}])
    upgrade(Database(party.url), party.cells)
    with pytest.raises(BudgetError, match="older"):
        party.take([1, 1], 2)


def test_without_a_backup_nothing_is_migrated(
    party: Party,
    former: Callable[[list[dict[str, Any]]], None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    former([{"run": "0" * 16, "draws": "a"}])
    before = (party.folder / "ledger.sqlite").read_bytes()

    def full(*_: Any) -> None:
        raise OSError

    monkeypatch.setattr("opboost_ops.privacy.migrations.copy_file", full)
    with pytest.raises(ConfigError, match="No backup"):
        upgrade(Database(party.url), party.cells)
    assert (party.folder / "ledger.sqlite").read_bytes() == before


def test_a_later_ledger_is_refused(party: Party) -> None:
    Database(party.url)
    connection = sqlite3.connect(party.folder / "ledger.sqlite")
    connection.execute("INSERT INTO schema (version, since) VALUES (3, '')")
    connection.commit()
    connection.close()
    with pytest.raises(ConfigError, match="version 3"):
        Database(party.url)
