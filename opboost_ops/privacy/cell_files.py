"""The files of cell states: a Parquet file a column, and their people once for all of them.

A column's file has what each person released, in the order of a file of people that it names. In
former files, of 0.2.0 and before, the people are in the column's own file. Those are read as they
are; when one is written anew, what there was is kept beside, in ``cells.before-shared/``.
"""

import fcntl
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from uuid import UUID

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from opboost_ops.privacy.people_files import SUFFIX, PeopleFiles
from opboost_ops.privacy.whole_files import put_whole, second_name
from opboost_ops.scratch.arrays import BLOCK, Scratch, let_go, slices

#: Where in a file's own description its mark is, and the name of its people's file.
_MARK, _PEOPLE = b"opboost.draw", b"opboost.people"

#: Persons of a row group.
_GROUP = 1 << 20

_NOBODY = np.empty(0, dtype=np.uint64)


@dataclass(frozen=True)
class CellState:
    """The cells of one column under one noise key, sorted by person.

    Attributes:
        people: Keyed 64-bit hashes of persons, uint64, shape (n,), rising.
        seen: Bit v of row i: whether person i's value number v of the domain was ever released;
            uint8, shape (n, `width_of` |D|).
        last: Number in the domain of the value last charged, shape (n,).
    """

    people: np.ndarray
    seen: np.ndarray
    last: np.ndarray

    def changes(self) -> np.ndarray:
        """How many different values of each person were released, shape (n,)."""
        return released(self.seen)


@dataclass(frozen=True)
class _Read:
    """What a column's file says; its people where it has them, as former ones do."""

    schema: pa.Schema
    people: np.ndarray
    seen: np.ndarray
    last: np.ndarray


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


def width_of(size: int) -> int:
    """Bytes of a row of bits: 1, 2, 4, or 8 so many times, which are integers to a processor.

    Args:
        size: How many bits there must be at least.
    """
    least = (size + 7) // 8
    return next((width for width in (1, 2, 4) if width >= least), -(-least // 8) * 8)


def as_integers(seen: np.ndarray) -> np.ndarray:
    """Rows of bits as unsigned integers, one or some a row.

    Args:
        seen: uint8, contiguous, shape (n, `width_of` something).

    Returns:
        Another view of the same, shape (n, number).
    """
    return seen.view(f"<u{min(seen.shape[1], 8)}")


def released(seen: np.ndarray) -> np.ndarray:
    """How many bits of each row are set.

    Args:
        seen: uint8, contiguous, shape (n, `width_of` something).

    Returns:
        int64, shape (n,).
    """
    counts = np.bitwise_count(as_integers(seen))
    return np.asarray(counts.sum(axis=1, dtype=np.int64) if counts.shape[1] > 1 else counts[:, 0])


class CellFiles:
    """The files in a folder of cell states.

    Args:
        folder: Where they lie.
        scratch: Where those are that are more than it holds.
    """

    def __init__(self, folder: Path, scratch: Scratch) -> None:
        self.folder = folder
        self._scratch = scratch
        #: Former files that were written anew.
        self.former = folder.with_name(f"{folder.name}.before-shared")
        self._people = PeopleFiles(scratch)

    def columns(self) -> dict[UUID, list[Path]]:
        """The files of each column, one for each noise key that it was ever released under."""
        found: dict[UUID, list[Path]] = {}
        for path in sorted(self.folder.glob("*.parquet")):
            found.setdefault(UUID(path.name[:36]), []).append(path)
        return found

    def all(self) -> list[Path]:
        """All files: columns' and people's."""
        return sorted([*self.folder.glob("*.parquet"), *self.folder.glob(f"*{SUFFIX}")])

    def load(self, path: Path) -> CellState:
        """The state in one of the files that `columns` lists.

        Raises:
            FileNotFoundError: It, or whose cells they are, is not there.
            BudgetError: Whose cells they are is damaged.
        """
        found = _read(path, self._scratch)
        while True:
            try:
                people = self._people_of(found, path.parent)
                break
            except FileNotFoundError:
                # Between one look and the other it may have been written anew, for other people.
                before, found = found, _read(path, self._scratch)
                if found.schema.metadata == before.schema.metadata:
                    raise
        return CellState(people, found.seen, found.last)

    def mark(self, path: Path) -> Mark | None:
        """What a file says of itself.

        Args:
            path: One of those that `columns` lists.

        Returns:
            Nothing where it was written before draws were numbered, or where nobody can tell any
            more whose its cells are.
        """
        found = pq.read_metadata(path)
        metadata, count = found.metadata or {}, found.num_rows
        name = metadata.get(_PEOPLE, b"").decode()
        if _MARK not in metadata or (name and not self._people.whole(path.parent, name, count)):
            return None
        return Mark(**json.loads(metadata[_MARK]))

    def write(self, path: Path, state: CellState, mark: Mark | None) -> None:
        """Write a state in the place of what there was; within `alone`."""
        self._keep_former(path)
        # First the people: a column's file never names some that are not there.
        metadata = {_PEOPLE: self._people.write(path.parent, state.people).encode()}
        if mark is not None:
            metadata[_MARK] = json.dumps(asdict(mark)).encode()
        seen = _column(np.ascontiguousarray(state.seen))
        table = pa.table({"seen": seen, "last": state.last}).replace_schema_metadata(metadata)
        # Wide ones are seldom the same, and read slowly if they are written once.
        often = ["last"] if state.seen.shape[1] > 8 else ["seen", "last"]

        def write(temporary: Path) -> None:
            with pq.ParquetWriter(
                temporary,
                table.schema,
                compression="zstd",
                use_dictionary=often,
                write_statistics=False,
            ) as writer:
                for rows in slices(max(table.num_rows, 1), _GROUP):
                    writer.write_table(table.slice(rows.start, rows.stop - rows.start))
                    let_go()

        # On the disk before the ledger says that it is charged: a state must not fall behind.
        put_whole(path, write)

    def tidy(self) -> None:
        """Remove people to whom no column's file points any more."""
        if next(self.folder.glob(f"*{SUFFIX}"), None) is not None:
            with self.alone():
                try:
                    named = {self._named(path) for path in self.folder.glob("*.parquet")}
                except (OSError, pa.ArrowInvalid):
                    return  # Whose the cells of a damaged file are is kept.
                self._people.remove_others(self.folder, named)

    def drop_former(self, path: Path) -> None:
        """Remove the copy of a former file that was written anew.

        Args:
            path: One of those that `columns` lists.
        """
        (self.former / path.name).unlink(missing_ok=True)
        with suppress(OSError):
            self.former.rmdir()  # Where it was the last.

    @contextmanager
    def alone(self) -> Iterator[None]:
        """While nobody else writes here."""
        self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        folder = os.open(self.folder, os.O_RDONLY)
        try:
            fcntl.flock(folder, fcntl.LOCK_EX)
            # What a killed writer has left: nobody else writes now.
            for left in self.folder.glob(".*.new"):
                left.unlink()
            yield
        finally:
            os.close(folder)

    def _named(self, path: Path) -> str:
        return _name_in(pq.read_schema(path))

    def _people_of(self, found: _Read, folder: Path) -> np.ndarray:
        name = _name_in(found.schema)
        return self._people.read(folder, name) if name else found.people

    def _keep_former(self, path: Path) -> None:
        try:
            if not path.is_file() or self._named(path):
                return
        except pa.ArrowInvalid:
            return  # Damaged: what is written in its place was decided without it.
        self.former.mkdir(mode=0o700, exist_ok=True)
        (self.former / path.name).unlink(missing_ok=True)
        second_name(path, self.former / path.name)


def _name_in(schema: pa.Schema) -> str:
    """Name of a column's people; empty in a former file."""
    metadata: dict[bytes, bytes] = schema.metadata or {}
    return metadata.get(_PEOPLE, b"").decode()


def _read(path: Path, scratch: Scratch) -> _Read:
    # By this thread alone, as all tables: Arrow's own might outlive the interpreter.
    with pq.ParquetFile(path, pre_buffer=False) as file:
        schema, rows = file.schema_arrow, file.metadata.num_rows
        former = "person" in schema.names
        if scratch.holds(rows):
            table = file.read(use_threads=False).combine_chunks()
            people = np.asarray(table.column("person").to_numpy()) if former else _NOBODY
            return _Read(schema, people, _bits(table), table.column("last").to_numpy())
        none = schema.empty_table()
        people = scratch.zeros(rows if former else 0, np.uint64)
        seen = scratch.zeros(rows, ("u1", (_bits(none).shape[1],)))
        last = scratch.zeros(rows, none.column("last").to_numpy().dtype)
        end = 0
        for batch in file.iter_batches(BLOCK, use_threads=False):
            table = pa.Table.from_batches([batch]).combine_chunks()
            begin, end = end, end + table.num_rows
            seen[begin:end], last[begin:end] = _bits(table), table.column("last").to_numpy()
            if former:
                people[begin:end] = table.column("person").to_numpy()
            let_go()
        return _Read(schema, people, seen, last)


def _column(seen: np.ndarray) -> pa.Array:
    if seen.shape[1] <= 8:
        return pa.array(as_integers(seen)[:, 0])
    buffers = [None, pa.py_buffer(seen)]
    return pa.FixedSizeBinaryArray.from_buffers(pa.binary(seen.shape[1]), len(seen), buffers)


def _bits(table: pa.Table) -> np.ndarray:
    """Rows of bits; former files have as many bytes as it takes, and rows of them in binary."""
    if pa.types.is_integer(table.schema.field("seen").type):
        integers: np.ndarray = table.column("seen").to_numpy()
        return integers.view(np.uint8).reshape(len(integers), integers.itemsize)
    width = table.schema.field("seen").type.byte_width
    if table.num_rows == 0:
        return np.empty((0, width_of(8 * width)), np.uint8)
    column = table.column("seen").chunk(0)
    count, offset = width * len(column), width * column.offset
    rows = np.frombuffer(column.buffers()[1], dtype=np.uint8, count=count, offset=offset)
    rows = rows.reshape(-1, width)
    if width == width_of(8 * width):
        return rows
    seen = np.zeros((len(rows), width_of(8 * width)), dtype=np.uint8)
    seen[:, :width] = rows
    return seen
