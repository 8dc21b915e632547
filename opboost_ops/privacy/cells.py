"""What each cell has released: never leaving, beside the ledger, a file a column."""

import shutil
from pathlib import Path
from uuid import UUID

import numpy as np

from opboost_ops.domain import Domain
from opboost_ops.privacy.cell_files import (
    CellFiles,
    CellState,
    Mark,
    as_integers,
    released,
    width_of,
)
from opboost_ops.privacy.match import Match, rows_of
from opboost_ops.scratch.arrays import Scratch, let_go, slices

#: The people of a state that is empty.
_NOBODY = np.empty(0, np.uint64)


class Cells:
    """The cell states of a party.

    Whoever holds values back and then charges them does both under the write lock of the party's
    ledger (`privacy.draws`); a lock of the folder's own keeps each single change whole besides.

    Args:
        folder: Where they lie.
        scratch: Where those are meanwhile that are more than it holds; up to `ROWS` when absent.
    """

    def __init__(self, folder: Path, scratch: Scratch | None = None) -> None:
        self._scratch = scratch or Scratch(folder)
        self._files = CellFiles(folder, self._scratch)
        self._match = Match(self._scratch)

    @property
    def folder(self) -> Path:
        """Where they lie."""
        return self._files.folder

    def known(self, column: UUID, context: bytes) -> bool:
        """Whether a column has released anything under a noise key.

        Args:
            column: The column's UUID.
            context: Digest of what keys its noise.
        """
        return self._path(column, context).is_file()

    def hold(
        self,
        column: UUID,
        context: bytes,
        people: np.ndarray,
        values: np.ndarray,
        domain: Domain,
        most: int | None,
    ) -> np.ndarray:
        """The values to release: a cell at its cap keeps the value that it was last charged for.

        Its output is then the one that it gave before; from outside nothing can be seen.

        Args:
            column: The column's UUID.
            context: Digest of what keys its noise: map, mechanism and secret.
            people: Keyed hashes of the persons, uint64, rising, shape (n,).
            values: Their values, integers, shape (n,).
            domain: Where they lie.
            most: How many different values of a cell may be released; no cap when absent.

        Returns:
            Integers, shape (n,).
        """
        state = self.read(column, context, domain) if most is not None else None
        if state is None or most is None or len(state.people) == 0:
            return values
        found = self._match.found(state.people, people)
        flat, width = state.seen.reshape(-1), state.seen.shape[1]
        kind = np.int64 if domain.lower < 0 else np.min_scalar_type(domain.upper)
        kept = self._scratch.zeros(len(values), kind)
        for rows in slices(len(values)):
            number = values[rows].astype(np.int64) - domain.lower
            place = rows_of(found.place, rows, len(number))
            bit = (number & 7).astype(np.uint8)
            fresh = ((flat[place * width + (number >> 3)] >> bit) & 1) == 0
            if found.there is not None:
                fresh &= found.there[rows]
            # Mostly a few: cells that would release what they never did.
            new = np.flatnonzero(fresh)
            new = new[released(state.seen[place[new]]) >= most]
            number[new] = state.last[place[new]]
            kept[rows] = number + domain.lower
            let_go()
        return kept

    def charge(
        self,
        column: UUID,
        context: bytes,
        people: np.ndarray,
        values: np.ndarray,
        domain: Domain,
        mark: Mark | None = None,
    ) -> None:
        """Note what is about to be released; noting it twice is noting it once.

        Args:
            column: The column's UUID.
            context: Digest of what keys its noise.
            people: Keyed hashes of the persons, uint64, rising, shape (n,).
            values: The values that `hold` gave, integers, shape (n,).
            domain: Where they lie.
            mark: The draw that it is; as the file's was when absent.
        """
        path = self._path(column, context)
        with self._files.alone():
            before = mark or (self.mark(path) if path.is_file() else None)
            state = self._charged(self.read(column, context, domain), people, values, domain)
            self._files.write(path, state, before)

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
            let_go()
        flat = seen.reshape(-1)
        for rows in slices(len(number)):
            part = number[rows]
            place = rows_of(union.new, rows, len(part))
            flat[place * width + (part >> 3)] |= np.left_shift(
                np.uint8(1), (part & 7).astype(np.uint8)
            )
            if union.new is not None:
                last[place] = part
            let_go()
        return CellState(union.people, seen, last)

    def _numbers(self, values: np.ndarray, domain: Domain) -> np.ndarray:
        numbers = self._scratch.zeros(len(values), _kind(domain))
        for rows in slices(len(values)):
            numbers[rows] = values[rows].astype(np.int64) - domain.lower
            let_go()
        return numbers

    def read(self, column: UUID, context: bytes, domain: Domain) -> CellState:
        """The state of a column's cells; empty before its first release."""
        path = self._path(column, context)
        return self.load(path) if path.is_file() else _empty(domain)

    def load(self, path: Path) -> CellState:
        """The state in one of the files that `columns` lists."""
        return self._files.load(path)

    def columns(self) -> dict[UUID, list[Path]]:
        """The files of each column, one for each noise key that it was ever released under."""
        return self._files.columns()

    def files(self) -> list[Path]:
        """All files of which states are made."""
        return self._files.all()

    def forget(self, people: np.ndarray) -> int:
        """Remove persons from all cells.

        Args:
            people: Their keyed hashes, uint64, shape (n,).

        Returns:
            How many cells were removed.
        """
        removed = 0
        with self._files.alone():
            for path in (path for paths in self.columns().values() for path in paths):
                state = self.load(path)
                keep = ~np.isin(state.people, people)
                if not keep.all():
                    removed += int((~keep).sum())
                    kept = CellState(state.people[keep], state.seen[keep], state.last[keep])
                    self._files.write(path, kept, self.mark(path))
            # They know the person, too.
            if self._files.former.is_dir():
                shutil.rmtree(self._files.former)
        self.tidy()
        return removed

    def tidy(self) -> None:
        """Remove what no state needs any more; after a draw has charged all of its columns."""
        self._files.tidy()

    def drop_former(self, column: UUID, context: str) -> None:
        """Remove what was kept of a former file when it was written anew.

        Args:
            column: The column's UUID.
            context: Name of the noise key, 16 hex digits.
        """
        self._files.drop_former(self.path(column, context))

    def former(self, column: UUID, context: str) -> Path | None:
        """What was kept of a former file, if there is anything.

        Args:
            column: The column's UUID.
            context: Name of the noise key, 16 hex digits.
        """
        path = self._files.former / self.path(column, context).name
        return path if path.is_file() else None

    def mark(self, path: Path) -> Mark | None:
        """What a file says of itself; nothing where nobody can tell any more whose its cells are.

        Args:
            path: One of those that `columns` lists.
        """
        return self._files.mark(path)

    def stamp(self, path: Path, mark: Mark) -> None:
        """Let a file say another draw of itself, whatever it holds.

        Args:
            path: One of those that `columns` lists.
            mark: The draw.
        """
        with self._files.alone():
            self._files.write(path, self.load(path), mark)

    def start(self, column: UUID, context: str, domain: Domain, mark: Mark) -> None:
        """Begin a state that is empty, where one was lost.

        Args:
            column: The column's UUID.
            context: Name of the noise key, 16 hex digits.
            domain: Where the values lie.
            mark: The draw that it begins after.
        """
        with self._files.alone():
            self._files.write(self.path(column, context), _empty(domain), mark)

    def path(self, column: UUID, context: str) -> Path:
        """Where the state of a column under a noise key lies.

        Args:
            column: The column's UUID.
            context: Name of the noise key, 16 hex digits.
        """
        return self._files.folder / f"{column}-{context}.parquet"

    def _path(self, column: UUID, context: bytes) -> Path:
        return self.path(column, context.hex()[:16])


def _empty(domain: Domain) -> CellState:
    seen, last = np.empty((0, width_of(domain.size)), np.uint8), np.empty(0, _kind(domain))
    return CellState(_NOBODY, seen, last)


def _kind(domain: Domain) -> type[np.unsignedinteger]:
    return np.uint8 if domain.size <= 2**8 else np.uint16 if domain.size <= 2**16 else np.uint32
