"""What each cell has released: never leaving, beside the ledger, a Parquet file a column."""

import fcntl
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from uuid import UUID, uuid4

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from opboost_ops.domain import Domain

#: Persons at a time, where all of a large table would need much more than their states.
_BLOCK = 131_072

#: Where in a file's own description its mark is.
_MARK = b"opboost.draw"


@dataclass(frozen=True)
class CellState:
    """The cells of one column under one noise key, sorted by person.

    Attributes:
        people: Keyed 64-bit hashes of persons, uint64, shape (n,), rising.
        seen: Bit v of row i: whether person i's value number v of the domain was ever released;
            uint8, shape (n, ceil(|D| / 8)).
        last: Number in the domain of the value last charged, shape (n,).
    """

    people: np.ndarray
    seen: np.ndarray
    last: np.ndarray

    def changes(self) -> np.ndarray:
        """How many different values of each person were released, shape (n,)."""
        return np.asarray(np.bitwise_count(self.seen).sum(axis=1, dtype=np.int64))


@dataclass(frozen=True)
class Mark:
    """What a cell state's file says of itself.

    Attributes:
        number: Of the last draw that it holds.
        worst: The public worst case after it.
        base: How much of that the state knows nothing of.
        draw: Name of that draw; where the ledger does not have it, it is charged by this name.
    """

    number: int
    worst: int
    base: int
    draw: str


class Cells:
    """The cell states of a party.

    Whoever holds values back and then charges them does both under the write lock of the party's
    ledger (`privacy.draws`); a lock of the folder's own keeps each single change whole besides.

    Args:
        folder: Where they lie.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    @property
    def folder(self) -> Path:
        """Where they lie."""
        return self._folder

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
        same = np.array_equal(state.people, people)
        kept = np.empty(
            len(values), dtype=np.int64 if domain.lower < 0 else np.min_scalar_type(domain.upper)
        )
        for begin in range(0, len(values), _BLOCK):
            rows = slice(begin, begin + _BLOCK)
            place, known = _find(state.people, people[rows], rows if same else None)
            old = CellState(people[rows], state.seen[place], state.last[place])
            number = values[rows].astype(np.int64) - domain.lower
            bit = (number & 7).astype(np.uint8)
            seen = (old.seen[np.arange(len(number)), number >> 3] >> bit) & 1
            held = known & (seen == 0) & (old.changes() >= most)
            kept[rows] = np.where(held, old.last.astype(np.int64), number) + domain.lower
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
        with self._alone():
            before = mark or (self.mark(path) if path.is_file() else None)
            state = self._charged(self.read(column, context, domain), people, values, domain)
            self._write(path, state, before)

    def _charged(
        self, state: CellState, people: np.ndarray, values: np.ndarray, domain: Domain
    ) -> CellState:
        number = _numbers(values, domain)
        new: np.ndarray | None = None
        if len(state.people) == 0:
            merged, last = people, number
            seen = np.zeros((len(people), _width(domain)), dtype=np.uint8)
        elif np.array_equal(state.people, people):
            # Mostly the same people as the night before.
            merged, seen, last = people, state.seen.copy(), number
        else:
            merged = _union(state.people, people)
            seen = np.zeros((len(merged), _width(domain)), dtype=np.uint8)
            last = np.zeros(len(merged), dtype=_kind(domain))
            old = np.searchsorted(merged, state.people)
            seen[old], last[old] = state.seen, state.last
            new = np.searchsorted(merged, people)
            last[new] = number
        for begin in range(0, len(number), _BLOCK):
            rows = slice(begin, begin + _BLOCK)
            part = number[rows]
            place = np.arange(begin, begin + len(part)) if new is None else new[rows]
            seen[place, part >> 3] |= np.left_shift(np.uint8(1), (part & 7).astype(np.uint8))
        return CellState(merged, seen, last)

    def read(self, column: UUID, context: bytes, domain: Domain) -> CellState:
        """The state of a column's cells; empty before its first release."""
        path = self._path(column, context)
        return self.load(path) if path.is_file() else _empty(domain)

    def load(self, path: Path) -> CellState:
        """The state in one of the files that `columns` lists."""
        # By this thread alone, as all tables: Arrow's own might outlive the interpreter.
        with pq.ParquetFile(path, pre_buffer=False) as file:
            table = file.read(use_threads=False).combine_chunks()
        width = table.schema.field("seen").type.byte_width
        if table.num_rows == 0:
            seen = np.empty((0, width), np.uint8)
        else:
            column = table.column("seen").chunk(0)
            count, offset = width * len(column), width * column.offset
            seen = np.frombuffer(column.buffers()[1], dtype=np.uint8, count=count, offset=offset)
        return CellState(
            table.column("person").to_numpy(),
            seen.reshape(-1, width),
            table.column("last").to_numpy(),
        )

    def columns(self) -> dict[UUID, list[Path]]:
        """The files of each column, one for each noise key that it was ever released under."""
        found: dict[UUID, list[Path]] = {}
        for path in sorted(self._folder.glob("*.parquet")):
            found.setdefault(UUID(path.name[:36]), []).append(path)
        return found

    def forget(self, people: np.ndarray) -> int:
        """Remove persons from all cells.

        Args:
            people: Their keyed hashes, uint64, shape (n,).

        Returns:
            How many cells were removed.
        """
        removed = 0
        with self._alone():
            for path in (path for paths in self.columns().values() for path in paths):
                state = self.load(path)
                keep = ~np.isin(state.people, people)
                if not keep.all():
                    removed += int((~keep).sum())
                    kept = CellState(state.people[keep], state.seen[keep], state.last[keep])
                    self._write(path, kept, self.mark(path))
        return removed

    def mark(self, path: Path) -> Mark | None:
        """What a file says of itself; nothing where it was written before draws were numbered.

        Args:
            path: One of those that `columns` lists.
        """
        metadata = pq.read_schema(path).metadata or {}
        return Mark(**json.loads(metadata[_MARK])) if _MARK in metadata else None

    def stamp(self, path: Path, mark: Mark) -> None:
        """Let a file say another draw of itself, whatever it holds.

        Args:
            path: One of those that `columns` lists.
            mark: The draw.
        """
        with self._alone():
            self._write(path, self.load(path), mark)

    def start(self, column: UUID, context: str, domain: Domain, mark: Mark) -> None:
        """Begin a state that is empty, where one was lost.

        Args:
            column: The column's UUID.
            context: Name of the noise key, 16 hex digits.
            domain: Where the values lie.
            mark: The draw that it begins after.
        """
        with self._alone():
            self._write(self.path(column, context), _empty(domain), mark)

    def path(self, column: UUID, context: str) -> Path:
        """Where the state of a column under a noise key lies.

        Args:
            column: The column's UUID.
            context: Name of the noise key, 16 hex digits.
        """
        return self._folder / f"{column}-{context}.parquet"

    def _path(self, column: UUID, context: bytes) -> Path:
        return self.path(column, context.hex()[:16])

    @contextmanager
    def _alone(self) -> Iterator[None]:
        self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        folder = os.open(self._folder, os.O_RDONLY)
        try:
            fcntl.flock(folder, fcntl.LOCK_EX)
            # What a killed writer has left: nobody else writes now.
            for left in self._folder.glob(".*.new"):
                left.unlink()
            yield
        finally:
            os.close(folder)

    def _write(self, path: Path, state: CellState, mark: Mark | None) -> None:
        width = state.seen.shape[1]
        raw = pa.py_buffer(np.ascontiguousarray(state.seen))
        seen = pa.FixedSizeBinaryArray.from_buffers(
            pa.binary(width), len(state.people), [None, raw]
        )
        table = pa.table({"person": state.people, "seen": seen, "last": state.last})
        if mark is not None:
            table = table.replace_schema_metadata({_MARK: json.dumps(asdict(mark)).encode()})
        temporary = path.with_name(f".{path.name}.{uuid4().hex}.new")
        pq.write_table(
            table,
            temporary,
            # Hashes do not compress.
            compression={"person": "none", "seen": "zstd", "last": "zstd"},
            use_dictionary=["seen", "last"],
            column_encoding={"person": "PLAIN"},
            write_statistics=False,
        )
        temporary.chmod(0o600)
        # On the disk before the ledger says that it is charged: a state must not fall behind.
        with temporary.open("rb") as file:
            os.fsync(file.fileno())
        temporary.replace(path)
        folder = os.open(self._folder, os.O_RDONLY)
        os.fsync(folder)
        os.close(folder)


def _find(
    known: np.ndarray, wanted: np.ndarray, same: slice | None
) -> tuple[slice | np.ndarray, np.ndarray]:
    if same is not None:
        return same, np.ones(len(wanted), dtype=bool)
    place = np.minimum(np.searchsorted(known, wanted), len(known) - 1)
    return place, known[place] == wanted


def _numbers(values: np.ndarray, domain: Domain) -> np.ndarray:
    numbers = np.empty(len(values), dtype=_kind(domain))
    for begin in range(0, len(values), _BLOCK):
        rows = slice(begin, begin + _BLOCK)
        numbers[rows] = values[rows].astype(np.int64) - domain.lower
    return numbers


def _union(known: np.ndarray, more: np.ndarray) -> np.ndarray:
    # Both rise, and a stable sort merges rising runs in linear time.
    both = np.sort(np.concatenate([known, more]), kind="stable")
    return both[np.concatenate([[True], both[1:] != both[:-1]])] if len(both) else both


def _empty(domain: Domain) -> CellState:
    return CellState(
        np.empty(0, np.uint64), np.empty((0, _width(domain)), np.uint8), np.empty(0, _kind(domain))
    )


def _width(domain: Domain) -> int:
    return (domain.size + 7) // 8


def _kind(domain: Domain) -> type[np.unsignedinteger]:
    return np.uint8 if domain.size <= 2**8 else np.uint16 if domain.size <= 2**16 else np.uint32
