"""The files of cell states: one Parquet file per noise key and generation, never changed.

A file has what each person released, in the order of a file of people that it names. In files of
0.1.0 the people are in the column's own file; those are read as they are.
"""

import hashlib
from collections.abc import Collection
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from opboost_ops.errors import BudgetError
from opboost_ops.privacy.cell_encryption import Encryption
from opboost_ops.privacy.people_files import PeopleFiles
from opboost_ops.scratch.arrays import BLOCK, Scratch, release_memory, slices
from opboost_ops.scratch.files import whole_file

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
class Generation:
    """Which file holds a state, as the database says.

    Attributes:
        name: The file's.
        number: Counted under the noise key, from 1.
        digest: Sha256 of the file.
        people: Name of the file of its people; empty where the file has them itself.
    """

    name: str
    number: int
    digest: str
    people: str


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
        key: Under which new files are encrypted, and encrypted ones are read; none when absent.
    """

    def __init__(self, folder: Path, scratch: Scratch, key: bytes | None = None) -> None:
        self.folder = folder
        self._scratch = scratch
        self._people = PeopleFiles(folder, scratch)
        self._encryption = Encryption(key)
        self._verified: set[Generation] = set()

    def load(self, found: Generation) -> CellState:
        """The state in a file.

        Raises:
            FileNotFoundError: The file, or that of its people, is not there.
            BudgetError: It is another file than the database says, or damaged.
        """
        people = self._verify(found)
        state = self._read(self.folder / found.name)
        return state if people is None else CellState(people, state.seen, state.last)

    def is_there(self, found: Generation) -> bool:
        """Whether a file and that of its people exist; nothing is read."""
        people = self._people.path(found.people).is_file() if found.people else True
        return people and (self.folder / found.name).is_file()

    def is_whole(self, found: Generation) -> bool:
        """Whether a file and that of its people are those that the database points to."""
        with suppress(FileNotFoundError, BudgetError):
            self._verify(found)
            return True
        return False

    def write(self, name: str, number: int, state: CellState) -> Generation:
        """Write a new file, on the disk before it returns.

        Args:
            name: Of the noise key, ``<column>-<context>``.
            number: The generation's.
            state: What it holds.
        """
        people = self._people.write(state.people)
        seen = _column(np.ascontiguousarray(state.seen))
        table = pa.table({"seen": seen, "last": state.last})
        # Wide ones are seldom the same, and read slowly if they are written once.
        often = ["last"] if state.seen.shape[1] > 8 else ["seen", "last"]

        path = self.folder / f"{name}.{number}.parquet"
        with (
            whole_file(path) as file,
            pq.ParquetWriter(
                file,
                table.schema,
                compression="zstd",
                use_dictionary=often,
                write_statistics=False,
                encryption_properties=self._encryption.writing(),
            ) as writer,
        ):
            for rows in slices(max(table.num_rows, 1), _GROUP):
                writer.write_table(table.slice(rows.start, rows.stop - rows.start))
        return Generation(path.name, number, _digest(path), people)

    def remove_others(self, found: Collection[Generation]) -> None:
        """Remove all files but those of some generations; nobody else writes meanwhile.

        Args:
            found: All that the database points to.
        """
        names = {one.name for one in found}
        for path in [*self.folder.glob("*.parquet"), *self.folder.glob(".*.new")]:
            if path.name not in names:
                path.unlink(missing_ok=True)
        self._people.remove_others({one.people for one in found})

    def _verify(self, found: Generation) -> np.ndarray | None:
        """The people of a file; None where it has them itself."""
        # Files never change: what was verified once is not read twice for it.
        if found not in self._verified and _digest(self.folder / found.name) != found.digest:
            raise BudgetError(
                f"The cell file {found.name} is not the one that the ledger points to.",
                "Put the newest copy back, or go on without it (`opboost ledger recover SITE`).",
            )
        self._verified.add(found)
        return self._people.read(found.people) if found.people else None

    def _read(self, path: Path) -> CellState:
        opened = self._encryption.reading(path)
        # By this thread alone, as all tables: Arrow's own might outlive the interpreter.
        with pq.ParquetFile(path, pre_buffer=False, decryption_properties=opened) as file:
            schema, rows = file.schema_arrow, file.metadata.num_rows
            former = "person" in schema.names
            if self._scratch.holds(rows):
                table = file.read(use_threads=False).combine_chunks()
                people = np.asarray(table.column("person").to_numpy()) if former else _NOBODY
                return CellState(people, _bits(table), table.column("last").to_numpy())
            none = schema.empty_table()
            people = self._scratch.zeros(rows if former else 0, np.uint64)
            seen = self._scratch.zeros(rows, ("u1", (_bits(none).shape[1],)))
            last = self._scratch.zeros(rows, none.column("last").to_numpy().dtype)
            end = 0
            for batch in file.iter_batches(BLOCK, use_threads=False):
                table = pa.Table.from_batches([batch]).combine_chunks()
                begin, end = end, end + table.num_rows
                seen[begin:end], last[begin:end] = _bits(table), table.column("last").to_numpy()
                if former:
                    people[begin:end] = table.column("person").to_numpy()
                release_memory()
            return CellState(people, seen, last)


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


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
    content = np.frombuffer(column.buffers()[1], dtype=np.uint8, count=count, offset=offset)
    rows = content.reshape(-1, width)
    if width == width_of(8 * width):
        return rows
    seen = np.zeros((len(rows), width_of(8 * width)), dtype=np.uint8)
    seen[:, :width] = rows
    return seen
