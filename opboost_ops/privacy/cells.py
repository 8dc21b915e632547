"""What each cell has released: Parquet files beside the database, which points to them.

A state is never changed: charging writes the next generation of its file, and the transaction that
charges the release points to it. Files that nothing points to are removed afterwards.
"""

from pathlib import Path
from uuid import UUID

import numpy as np
import sqlalchemy as sa

from opboost_ops.domain import Domain
from opboost_ops.errors import BudgetError
from opboost_ops.privacy.cell_files import (
    CellFiles,
    CellState,
    Generation,
    as_integers,
    released,
    width_of,
)
from opboost_ops.privacy.database import Database
from opboost_ops.privacy.match import Match, rows_of
from opboost_ops.privacy.tables import table
from opboost_ops.scratch.arrays import Scratch, release_memory, slices

#: Bytes that states take which `hold` keeps for `charge`, for each row that is held at once.
_KEPT = 32

#: The people of a state that is empty.
_NOBODY = np.empty(0, np.uint64)

_CELLS = table(
    "cell_files", {"column": 36, "cells": 16}, name=120, number=int, digest=64, people=32
)


class Cells:
    """The cell states of a party.

    Args:
        folder: Where the files lie.
        database: The party's, whose write lock every change is under.
        scratch: Where those are meanwhile that are more than it holds; up to `ROWS` when absent.
        key: Under which files are encrypted at rest; none when absent.

    Attributes:
        files: The files.
    """

    def __init__(
        self,
        folder: Path,
        database: Database,
        scratch: Scratch | None = None,
        key: bytes | None = None,
    ) -> None:
        self.folder = folder
        self._database = database
        self._scratch = scratch or Scratch(folder)
        self.files = CellFiles(folder, self._scratch, key)
        self._match = Match(self._scratch)
        self._kept: dict[Generation, CellState] = {}

    def generation(self, column: UUID, cells: str) -> Generation | None:
        """Which file holds the state of a noise key; None before the first draw.

        Args:
            column: The column's UUID.
            cells: Name of the noise key, 16 hex digits.
        """
        row = self._database.first(sa.select(_CELLS).where(*_place(column, cells)))
        return Generation(*row[2:]) if row is not None else None

    def generations(self) -> dict[tuple[UUID, str], Generation]:
        """All states, by column and name of the noise key."""
        rows = self._database.rows(sa.select(_CELLS).order_by(*_CELLS.primary_key.columns))
        return {(UUID(row[0]), row[1]): Generation(*row[2:]) for row in rows}

    def load(self, column: UUID, cells: str) -> CellState | None:
        """The state of a noise key; None before the first draw.

        Args:
            column: The column's UUID.
            cells: Name of the noise key, 16 hex digits.

        Raises:
            BudgetError: Its file is gone, damaged, or another one than the database points to.
        """
        found = self._find(column, cells)
        return found[1] if found is not None else None

    def _find(self, column: UUID, cells: str) -> tuple[Generation, CellState] | None:
        found = self.generation(column, cells)
        while found is not None:
            try:
                return found, self.files.load(found)
            except FileNotFoundError:
                # It may have been charged between one look and the other.
                before, found = found, self.generation(column, cells)
                if found == before:
                    break
        if found is None:
            return None
        raise BudgetError(
            f"The cell file {found.name}, or that of its people, is gone.",
            "Put the newest copy back, or go on without it (`opboost ledger recover SITE`).",
        )

    def read(self, column: UUID, context: bytes, domain: Domain) -> CellState:
        """The state of a column's cells; empty before its first release.

        Args:
            column: The column's UUID.
            context: Digest of what keys its noise.
            domain: Where its values lie.
        """
        return self.load(column, context.hex()[:16]) or empty_state(domain)

    def is_there(self, column: UUID, cells: str) -> bool:
        """Whether the state's file exists; it is not read.

        Args:
            column: The column's UUID.
            cells: Name of the noise key, 16 hex digits.
        """
        found = self.generation(column, cells)
        return found is not None and self.files.is_there(found)

    def is_whole(self, column: UUID, cells: str) -> bool:
        """Whether the state's file is the one that was charged last; its digest is compared.

        Args:
            column: The column's UUID.
            cells: Name of the noise key, 16 hex digits.
        """
        found = self.generation(column, cells)
        return found is not None and self.files.is_whole(found)

    def hold(
        self,
        column: UUID,
        context: bytes,
        people: np.ndarray,
        values: np.ndarray,
        domain: Domain,
        most: int | None,
        *,
        freeze: bool = False,
    ) -> np.ndarray:
        """The values to release: a cell at its cap releases no value that it never released.

        It keeps the one that it was last charged for. Its output is then the one that it gave
        before; from outside nothing can be seen. Without `freeze`, it follows the table back to a
        value that it released before.

        Args:
            column: The column's UUID.
            context: Digest of what keys its noise: map, mechanism and secret.
            people: Keyed hashes of the persons, uint64, rising, shape (n,).
            values: Their values, integers, shape (n,).
            domain: Where they lie.
            most: How many different values of a cell may be released; no cap when absent.
            freeze: Whether a cell at its cap keeps its last value whatever the table holds: where
                the value is released exactly, also its return to an earlier one would be.

        Returns:
            Integers, shape (n,).
        """
        file = self._find(column, context.hex()[:16]) if most is not None else None
        if file is None or most is None or len(file[1].people) == 0:
            return values
        state = file[1]
        self._keep(*file)
        found = self._match.found(state.people, people)
        flat, width = state.seen.reshape(-1), state.seen.shape[1]
        kind = np.int64 if domain.lower < 0 else np.min_scalar_type(domain.upper)
        kept = self._scratch.zeros(len(values), kind)
        for rows in slices(len(values)):
            number = values[rows].astype(np.int64) - domain.lower
            place = rows_of(found.place, rows, len(number))
            if freeze:
                fresh = np.ones(len(number), bool)
            else:
                bit = (number & 7).astype(np.uint8)
                fresh = ((flat[place * width + (number >> 3)] >> bit) & 1) == 0
            if found.there is not None:
                fresh &= found.there[rows]
            # Mostly a few, unless frozen: cells that would release what they never did.
            new = np.flatnonzero(fresh)
            new = new[released(state.seen[place[new]]) >= most]
            number[new] = state.last[place[new]]
            kept[rows] = number + domain.lower
            release_memory()
        return kept

    def charge(
        self, column: UUID, context: bytes, people: np.ndarray, values: np.ndarray, domain: Domain
    ) -> None:
        """Note what is about to be released; noting it twice is noting it once.

        Args:
            column: The column's UUID.
            context: Digest of what keys its noise.
            people: Keyed hashes of the persons, uint64, rising, shape (n,).
            values: The values that `hold` gave, integers, shape (n,).
            domain: Where they lie.
        """
        cells = context.hex()[:16]
        with self._database.writing():
            before = self.generation(column, cells)
            # Mostly as `hold` has read it just now: a file never changes.
            state = self._kept.pop(before, None) if before is not None else None
            state = state or self.read(column, context, domain)
            self._write(column, cells, before, self._charged(state, people, values, domain))

    def remove(self, column: UUID, cells: str) -> None:
        """Point to no file where one was lost that no account is kept of.

        Args:
            column: The column's UUID.
            cells: Name of the noise key, 16 hex digits.
        """
        self._database.execute(sa.delete(_CELLS).where(*_place(column, cells)))

    def replace(self, column: UUID, cells: str, state: CellState) -> None:
        """Take over a state: one of a former release, or an empty one where it was lost.

        Args:
            column: The column's UUID.
            cells: Name of the noise key, 16 hex digits.
            state: What it holds.
        """
        with self._database.writing():
            self._write(column, cells, self.generation(column, cells), state)

    def forget(self, people: np.ndarray) -> int:
        """Remove persons from all cells; the former files go with the next `collect`.

        Args:
            people: Their keyed hashes, uint64, shape (n,).

        Returns:
            How many cells were removed.
        """
        removed = 0
        with self._database.writing():
            for (column, cells), found in self.generations().items():
                if not self.files.is_there(found):
                    continue
                state = self.files.load(found)
                keep = ~np.isin(state.people, people)
                if not keep.all():
                    removed += int((~keep).sum())
                    kept = CellState(state.people[keep], state.seen[keep], state.last[keep])
                    self._write(column, cells, found, kept)
        return removed

    def collect(self) -> None:
        """Remove files that nothing points to, once what points to others is committed."""
        if self._database.in_transaction or not self.folder.is_dir():
            return
        with self._database.writing():
            self.files.remove_others(self.generations().values())

    def _keep(self, found: Generation, state: CellState) -> None:
        """Keep a state that was read for the charge that follows, as far as memory is for it."""
        size = sum(each.seen.nbytes + each.last.nbytes for each in self._kept.values())
        size += state.seen.nbytes + state.last.nbytes
        if self._scratch.holds(len(state.people)) and size <= _KEPT * self._scratch.rows:
            self._kept[found] = state

    def _write(self, column: UUID, cells: str, before: Generation | None, state: CellState) -> None:
        number = before.number + 1 if before else 1
        made = self.files.write(f"{column}-{cells}", number, state)
        row = {"column": str(column), "cells": cells, **vars(made)}
        with self._database.writing():
            self.remove(column, cells)
            self._database.execute(sa.insert(_CELLS).values(row))

    def _charged(
        self, state: CellState, people: np.ndarray, values: np.ndarray, domain: Domain
    ) -> CellState:
        number, width = self._numbers(values, domain), width_of(domain.size)
        union = self._match.union(state.people, people)
        seen = self._scratch.zeros(len(union.people), ("u1", (width,)))
        last = number
        if union.new is not None:
            last = self._scratch.zeros(len(union.people), number.dtype)
        for rows in slices(len(state.people)):
            # Mostly the same people as the night before, or a part of them.
            at = rows if union.old is None else union.old[rows]
            as_integers(seen)[at] = as_integers(state.seen[rows])
            if union.new is not None:
                last[at] = state.last[rows]
            release_memory()
        flat = seen.reshape(-1)
        for rows in slices(len(number)):
            part = number[rows]
            place = rows_of(union.new, rows, len(part))
            flat[place * width + (part >> 3)] |= np.left_shift(
                np.uint8(1), (part & 7).astype(np.uint8)
            )
            if union.new is not None:
                last[place] = part
            release_memory()
        return CellState(union.people, seen, last)

    def _numbers(self, values: np.ndarray, domain: Domain) -> np.ndarray:
        numbers = self._scratch.zeros(len(values), _kind(domain))
        for rows in slices(len(values)):
            numbers[rows] = values[rows].astype(np.int64) - domain.lower
            release_memory()
        return numbers


def _place(column: UUID, cells: str) -> tuple[sa.ColumnElement[bool], ...]:
    return _CELLS.c.column == str(column), _CELLS.c.cells == cells


def empty_state(domain: Domain) -> CellState:
    """The state before the first draw.

    Args:
        domain: Where the values lie.
    """
    seen, last = np.empty((0, width_of(domain.size)), np.uint8), np.empty(0, _kind(domain))
    return CellState(_NOBODY, seen, last)


def _kind(domain: Domain) -> type[np.unsignedinteger]:
    return np.uint8 if domain.size <= 2**8 else np.uint16 if domain.size <= 2**16 else np.uint32
