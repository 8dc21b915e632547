"""Draws: what may go is held back and charged in one transaction, before anything is published.

Two runs that are prepared side by side never hold back by the same state: the run that draws first
has charged its values before the other looks. A draw counts whether or not it is published; a crash
in between leaves it charged, and the retry finds it and repeats it.
"""

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple
from uuid import UUID

import numpy as np

from opboost_ops.domain import Domain
from opboost_ops.errors import BudgetError, ContractError
from opboost_ops.privacy.cells import Cells
from opboost_ops.privacy.database import Database
from opboost_ops.privacy.events import Draw, Release
from opboost_ops.privacy.forgotten import Forgotten
from opboost_ops.privacy.ledger import Ledger, Rule
from opboost_ops.privacy.loss import LossCurve
from opboost_ops.privacy.worst_case import CellBound
from opboost_ops.scratch.arrays import release_memory, slices


@dataclass(frozen=True)
class DrawRequest:
    """Cells of one column that a run would release.

    Attributes:
        column: The column's UUID.
        charge: What is charged: a feature, or its missing bit.
        context: Digest of what keys its noise: map, channel and secret.
        people: Keyed hashes of the persons, uint64, rising, shape (n,).
        values: Their values, integers, shape (n,).
        domain: Where they lie.
        most: How many different values of a cell may be released; no cap when absent.
        loss: Of one value.
        kept: What the run held before, for the same values; see `Draws.take`.
    """

    column: UUID
    charge: str
    context: bytes
    people: np.ndarray
    values: np.ndarray
    domain: Domain
    most: int | None
    loss: LossCurve
    kept: np.ndarray | None = None

    @property
    def cells(self) -> str:
        """Name of the noise key."""
        return self.context.hex()[:16]


class Drawn(NamedTuple):
    """What may go of a column.

    Attributes:
        values: Integers, shape (n,).
        name: The draw's.
    """

    values: np.ndarray
    name: str


def draw_name(column: UUID, context: bytes, people: np.ndarray, held: np.ndarray) -> str:
    """Keyed digest of held inputs and people, 64 hex digits: the name of a draw.

    Args:
        column: The column's UUID.
        context: Digest of what keys its noise; it is secret, and the digest's key.
        people: Keyed hashes of the persons, uint64, rising, shape (n,).
        held: Their values as they may go, integers, shape (n,).
    """
    name = hashlib.blake2b(column.bytes, digest_size=32, key=context)
    # Eight bytes a cell, whatever type they are kept in.
    for values in (people, held):
        for rows in slices(len(values)):
            part = values[rows]
            name.update(part.astype(np.uint64 if part.dtype == np.uint64 else np.int64).tobytes())
            release_memory()
    return name.hexdigest()


def former_draw(column: UUID, cells: str) -> str:
    """The name of the one draw that stands for what 0.1.0 has released, 64 hex digits.

    Args:
        column: The column's UUID.
        cells: Name of the noise key.
    """
    return hashlib.sha256(f"former/{column}/{cells}".encode()).hexdigest()


class Draws:
    """Takes draws for a party.

    Args:
        database: The party's.
        cells: Its cell states.
    """

    def __init__(self, database: Database, cells: Cells) -> None:
        self._database = database
        self._ledger = Ledger(database)
        self._cells = cells

    def take(
        self,
        asked: Sequence[DrawRequest],
        facts: dict[str, Any],
        rule: Rule | None,
        keep: Callable[[Sequence[np.ndarray]], None],
    ) -> list[Drawn]:
        """Hold back what is at its cap, and charge the rest: one transaction for all columns.

        Args:
            asked: The cells, by column.
            facts: What the ledger's lines say besides; see `Release`.
            rule: Whether they may be charged to what was released before.
            keep: Called with the values that may go, before anything is charged for them. A retry
                gives them back as `DrawRequest.kept`, and draws the same again.

        Returns:
            By column, the values that may go.

        Raises:
            BudgetError: The draw would exceed a budget, or a cell state is lost; nothing was
                charged.
            ContractError: Someone was forgotten since the run read its table.
        """
        with self._database.writing():
            worst = [self._ledger.worst(one.column, one.cells) for one in asked]
            self._require_states(asked, worst)
            self._require_nobody_forgotten(asked)
            held: list[Drawn] = []
            new: list[tuple[DrawRequest, np.ndarray]] = []
            lines: list[Release] = []
            repeated: list[Release] = []
            for one, before in zip(asked, worst, strict=True):
                values, name = drawn = self._held(one)
                held.append(drawn)
                if self._ledger.known([name]):
                    continue
                new.append((one, values))
                if self._repeats_former(one, values, before):
                    repeated.append(_line(one, name, before, before, facts))
                    continue
                after = before.after_draw(one.most, one.domain.size)
                lines.append(_line(one, name, before, after, facts))
            self._ledger.reserve(repeated, None)
            self._ledger.reserve(lines, rule)
            keep([drawn.values for drawn in held])
            for one, values in new:
                self._cells.charge(one.column, one.context, one.people, values, one.domain)
        if new:
            self._cells.collect()
        return held

    def _repeats_former(self, one: DrawRequest, values: np.ndarray, before: CellBound) -> bool:
        """Whether a draw is what 0.1.0 has drawn, which the migration could not name.

        Nobody in the cell state gets a value that they have not released; who is not in it gets a
        first one. See `privacy.worst_case`.
        """
        if before.number != 1 or not self._ledger.known([former_draw(one.column, one.cells)]):
            return False
        # At a cap of 1 every value that is new to the state is held back.
        known = self._cells.hold(one.column, one.context, one.people, values, one.domain, 1)
        return all(
            np.array_equal(known[rows].astype(np.int64), values[rows].astype(np.int64))
            for rows in slices(len(values))
        )

    def _require_states(self, asked: Sequence[DrawRequest], worst: Sequence[CellBound]) -> None:
        """Refuse to draw where what a noise key has released is not known any more."""
        lost = [
            one.charge
            for one, before in zip(asked, worst, strict=True)
            if before.number and not self._cells.is_there(one.column, one.cells)
        ]
        if lost:
            raise BudgetError(
                f"The cell states of {', '.join(lost)} are lost: which values their people have "
                "released is not known.",
                "Nothing was released. Put the newest files back, go on without them (`opboost "
                "ledger recover SITE`), or rotate the noise secret.",
            )

    def _require_nobody_forgotten(self, asked: Sequence[DrawRequest]) -> None:
        """Refuse people whose cells are gone: what they have released before is not known."""
        gone = Forgotten(self._database).read().hashes()
        if len(gone) and any(_are_among(gone, one.people) for one in asked[:1]):
            raise ContractError(
                "A person was forgotten since this run has read the party's table.",
                "Trigger a new run.",
            )

    def _held(self, one: DrawRequest) -> Drawn:
        if one.kept is not None:
            name = draw_name(one.column, one.context, one.people, one.kept)
            if self._ledger.known([name]):
                return Drawn(one.kept, name)
        held = self._cells.hold(
            one.column, one.context, one.people, one.values, one.domain, one.most
        )
        return Drawn(held, draw_name(one.column, one.context, one.people, held))


def _are_among(some: np.ndarray, people: np.ndarray) -> bool:
    """Whether any of some is among people that rise."""
    at = np.searchsorted(people, some)
    inside = at < len(people)
    return bool((people[at[inside]] == some[inside]).any())


def _line(
    one: DrawRequest, name: str, before: CellBound, after: CellBound, facts: dict[str, Any]
) -> Release:
    return Release(
        **facts,
        kind="draw",
        artifact=name,
        account="local_dp",
        feature=one.charge,
        column=one.column,
        cells=one.cells,
        draws=name,
        draw=Draw(
            number=after.number,
            most=one.most,
            added=after.values - before.values,
            worst=after.values,
            base=after.base,
            inputs=one.domain.size,
            stands_for=after.number - before.number,
        ),
        loss=one.loss,
        rows=len(one.people),
    )
