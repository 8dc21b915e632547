"""The files of an artifact: integer columns in small types, salted contents, parts of a long one.

>>> files = Files({"manifest.json": b"{}"}, {"entries-0000.bin": lambda: b"part"})
>>> sorted(files), files["entries-0000.bin"]
(['entries-0000.bin', 'manifest.json'], b'part')

A manifest is public, and lists the sha256 and the size of every file. With one row, `routes` or
`values` has a handful of possible contents: anyone who reads the store, or a digest in Airflow,
could find the right one by trying them, although the file itself is encrypted. So an encrypted file
is

    salt (32 bytes) | length of the content (8 bytes, little endian) | content | zeros

and digest, size and encryption are of all that. The salt follows from the publisher's secret and
the file's place, so that a retry makes the same bytes. Zeros fill it up to a multiple of `STEP`
bytes, and below `FEW` rows up to a size that depends on public row and column counts alone. Without
encryption there is no salt: anyone who sees the store reads the file itself.
"""

import re
from collections.abc import Callable, Iterator, Mapping

import numpy as np
import polars as pl
import pyarrow as pa

from opboost_ops.exchange.rejection import Rejected
from opboost_ops.tables.spill.arrays import BLOCK, Scratch, release_memory, slices

#: The one file of a list of points, tags or bits that is no longer than a part.
ENTRIES = "entries.bin"

_PART = re.compile(r"^(entries-[0-9]{4}\.bin|table-[0-9]{4}\.parquet)(\.enc)?$")

#: Most parts of an artifact.
MOST_PARTS = 1 << 12

SALT_BYTES = 32

_HEAD = SALT_BYTES + 8

#: Below so many rows, all contents have one size.
FEW = 1000

#: More than Parquet or JSON takes for a cell or a split of the protocol.
_CELL = 32

#: More than Parquet takes for what it says of a column, whose name may have 128 characters.
_COLUMN = 2048

#: Sizes of encrypted files are multiples of this.
STEP = 4096


class Files(Mapping[str, bytes]):
    """Files by name, of which some are not kept in memory.

    Args:
        ready: Those that are.
        later: What gives each of the others, as often as it is asked.
        sizes: Bytes of those, where they are known.
    """

    def __init__(
        self,
        ready: Mapping[str, bytes],
        later: Mapping[str, Callable[[], bytes]],
        sizes: Mapping[str, int] | None = None,
    ) -> None:
        self._ready = ready
        self._later = later
        self._sizes = sizes or {}

    def __getitem__(self, name: str) -> bytes:
        """A file's content."""
        return self._later[name]() if name in self._later else self._ready[name]

    def __contains__(self, name: object) -> bool:
        """True if there is such a file; none is made to tell."""
        return name in self._later or name in self._ready

    def __iter__(self) -> Iterator[str]:
        """All names."""
        yield from self._ready
        yield from self._later

    def __len__(self) -> int:
        """How many files there are."""
        return len(self._ready) + len(self._later)

    def size(self, name: str) -> int:
        """Bytes of a file; one whose size is known is not made for that.

        Args:
            name: Its name.
        """
        size = self._sizes.get(name)
        return len(self[name]) if size is None else size


def sizes_of(files: Mapping[str, bytes]) -> dict[str, int]:
    """Bytes of each file.

    Args:
        files: By name.
    """
    if isinstance(files, Files):
        return {name: files.size(name) for name in files}
    return {name: len(raw) for name, raw in files.items()}


def part_names(count: int) -> list[str]:
    """Names of the files of a list, in its order.

    Args:
        count: How many parts it has.
    """
    return [ENTRIES] if count == 1 else [f"entries-{i:04}.bin" for i in range(count)]


def is_part(name: str) -> bool:
    """True if a file is one of several parts, encrypted or not.

    Args:
        name: Its name.
    """
    return _PART.match(name) is not None


def salted(content: bytes, salt: bytes, rows: int, columns: int) -> bytes:
    """A file as it is before encryption.

    Args:
        content: The file.
        salt: 32 bytes that nobody but publisher and receiver know.
        rows: Of its table; entries of its document. Public.
        columns: Of its table. Public.
    """
    size = _HEAD + len(content)
    if rows < FEW:
        width = max(columns, 1)
        size = max(size, _HEAD + _COLUMN * width + _CELL * rows * width)
    padding = -size % STEP + size - _HEAD - len(content)
    return b"".join((salt, len(content).to_bytes(8, "little"), content, bytes(padding)))


def unsalted(raw: bytes, what: str) -> bytes:
    """The content of such a file.

    Args:
        raw: As it was decrypted.
        what: Name of its place and of the file, for the error.

    Raises:
        Rejected: It is none.
    """
    length = int.from_bytes(raw[SALT_BYTES:_HEAD], "little")
    if len(raw) < _HEAD or length > len(raw) - _HEAD or raw[_HEAD + length :].strip(b"\0"):
        raise Rejected("malformed", f"{what} is not salted and padded as it must be.")
    return raw[_HEAD : _HEAD + length]


def smallest_integers(values: np.ndarray, scratch: Scratch | None = None) -> pa.Array:
    """Non-negative integers in the smallest unsigned type that holds them.

    Args:
        values: Integers, shape (n,).
        scratch: Where those are that are more than it holds.
    """
    large = scratch is not None and not scratch.holds(len(values))
    highest = lowest = 0
    for rows in slices(len(values), BLOCK if large else max(len(values), 1)):
        highest = int(values[rows].max(initial=highest))
        lowest = int(values[rows].min(initial=lowest))
        release_memory()
    bits = next(bits for bits in (8, 16, 32, 64) if highest < 2**bits)
    kind = np.dtype("int64" if lowest < 0 else f"uint{bits}")
    if scratch is None or not large or values.dtype == kind:
        return pa.array(values.astype(kind, copy=False))
    narrow = scratch.zeros(len(values), kind)
    for rows in slices(len(values)):
        narrow[rows] = values[rows]
        release_memory()
    return pa.array(narrow)


def integers(table: pa.Table, column: str) -> np.ndarray:
    """A column of integers, int64, shape (n,)."""
    return whole_numbers(table.column(column))


def whole_numbers(column: pa.ChunkedArray) -> np.ndarray:
    """Integers as they are in a table, int64, shape (n,)."""
    return np.ascontiguousarray(pl.from_arrow(column).to_numpy(), dtype=np.int64)


def narrow_integers(table: pa.Table, column: str) -> np.ndarray:
    """A column of integers in the type that it is kept in, shape (n,): for tables of many rows."""
    return np.asarray(table.column(column).to_numpy())
