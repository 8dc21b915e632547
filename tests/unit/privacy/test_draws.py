"""Draws: held back and charged in one transaction, found again after a crash, refused when lost."""

import uuid
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from opboost_ops.domain import Domain
from opboost_ops.errors import BudgetError, ConfigError, ContractError
from opboost_ops.mechanisms import GlobalMap
from opboost_ops.privacy.accountant import accounts
from opboost_ops.privacy.cells import Cells
from opboost_ops.privacy.database import Database
from opboost_ops.privacy.draws import DrawRequest, Draws
from opboost_ops.privacy.events import Release
from opboost_ops.privacy.forgotten import Forgotten, cell_hashes
from opboost_ops.privacy.ledger import Ledger
from opboost_ops.privacy.loss import loss_curve

COLUMN, CONTEXT, TEN = uuid.UUID(int=7), bytes(32), Domain(1, 10)
CURVE = loss_curve(GlobalMap(epsilon=0.5), TEN)
FACTS = {"federation": "credit", "run": "0" * 16, "party": "bank", "receiver": "lender"}


class Party:
    """Ledger and cell states in a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.url = f"sqlite:///{folder / 'ledger.sqlite'}"
        self.database = Database(self.url)
        self.cells = Cells(folder / "cells", self.database)
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
            DrawRequest(
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

        draws = Draws(self.database, self.cells)
        return [part.values.tolist() for part in draws.take(asked, FACTS, None, keep)]

    def lines(self) -> list[Release]:
        return Ledger(Database(self.url)).releases()

    def worst(self, column: uuid.UUID = COLUMN) -> tuple[int, int]:
        found = Ledger(Database(self.url)).worst(column, CONTEXT.hex()[:16])
        return found.values, found.number

    def state(self, column: uuid.UUID = COLUMN) -> Path:
        (path,) = (self.folder / "cells").glob(f"{column}-*.parquet")
        return path


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
    # Where it died nothing was charged, and no file is left that nothing points to.
    assert party.worst() == ((2, 2) if after == 2 else (1, 1))
    held = party.take_all({COLUMN: [2, 1], other: [2, 1]}, 2, kept=kept)
    assert held == [[2, 1], [2, 1]]
    assert len(list((party.folder / "cells").glob("*.parquet"))) == 2
    for column in (COLUMN, other):
        state = party.cells.load(column, CONTEXT.hex()[:16])
        assert state is not None
        worst, _ = party.worst(column)
        assert state.changes().max() <= worst <= 2


def test_a_budget_refuses_before_a_cell_is_charged(party: Party) -> None:
    party.take([1, 2], None)
    before = party.state().read_bytes()

    def refuse(*_: Any) -> None:
        raise BudgetError("enough")

    draws = Draws(party.database, party.cells)
    asked = DrawRequest(
        COLUMN, "f7", CONTEXT, np.array([1], np.uint64), np.array([9]), TEN, None, CURVE
    )
    with pytest.raises(BudgetError, match="enough"):
        draws.take([asked], FACTS, refuse, lambda _: None)
    assert party.state().read_bytes() == before
    assert party.worst() == (1, 1)


@pytest.mark.parametrize("how", ["gone", "damaged", "older"])
def test_a_lost_state_is_refused_until_its_owner_goes_on(party: Party, how: str) -> None:
    party.take([1, 1], 2)
    old, name = party.state().read_bytes(), party.state().name
    party.take([2, 1], 2)
    new = party.state()
    if how == "damaged":
        new.write_bytes(b"no Parquet")
    else:
        new.unlink()
    if how == "older":
        # An older folder was put back: the database points to no file in it.
        new.with_name(name).write_bytes(old)
    with pytest.raises(BudgetError, match=r"lost|not the one that the ledger points to"):
        party.take([3, 1], 2)
    assert party.worst() == (2, 2)
    assert not party.cells.is_whole(COLUMN, CONTEXT.hex()[:16])


def test_both_the_charge_and_the_generation_exist_or_neither(
    party: Party, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The database was put back from before two draws: it points to files that are gone."""
    party.take([1, 1], None)
    backup = (party.folder / "ledger.sqlite").read_bytes()
    party.take([2, 1], None)
    party.take([3, 1], None)
    (party.folder / "ledger.sqlite").write_bytes(backup)
    with pytest.raises(BudgetError, match="lost"):
        party.take([4, 1], None)


def test_totals_are_those_of_all_entries(party: Party) -> None:
    other = uuid.UUID(int=8)
    for values in ([1, 2], [3, 2], [3, 4]):
        party.take_all({COLUMN: values, other: values[::-1]}, 2)
        party.take([5, 5], 1, column=other)
    ledger = Ledger(Database(party.url))
    assert ledger.accounts() == accounts(ledger.releases())


def test_encrypted_states_give_no_value_without_their_key(tmp_path: Path) -> None:
    party, key = Party(tmp_path), bytes(range(32))
    party.cells = Cells(tmp_path / "cells", party.database, key=key)
    assert party.take([1, 2, 3], 2) == [1, 2, 3]
    assert party.take([4, 2, 3], 2) == [4, 2, 3]
    assert party.state().read_bytes()[:4] == b"PARE"
    for wrong in (None, bytes(32)):
        with pytest.raises(ConfigError, match="encrypted"):
            Cells(tmp_path / "cells", Database(party.url), key=wrong).load(
                COLUMN, CONTEXT.hex()[:16]
            )


def test_nobody_comes_back_from_the_list_of_the_forgotten(party: Party) -> None:
    party.take([1, 2, 3], 1)
    forgotten = Forgotten(Database(party.url))
    assert forgotten.add(bytes(range(32)), "P1", [2])
    assert not forgotten.add(bytes(range(32)), "P1", [2])
    with pytest.raises(ContractError, match="forgotten since this run"):
        party.take([1, 2, 3], 1)
    kept = forgotten.read().keep(pa.array(["P1", "P2"]), "string")
    assert kept.tolist() == [False, True]
    # Under another secret, and merged with another list, nobody leaves it.
    forgotten.add(bytes(32), 3)
    assert forgotten.read().keep(pa.array([3, 4]), "integer").tolist() == [False, True]


def test_a_persons_hashes_are_those_under_every_secret_and_type() -> None:
    secrets = (bytes(32), bytes(range(32)))
    assert len(cell_hashes(secrets, ["lender", "shop"], ["12", 12])) == 8
