"""The files of an artifact: on-demand contents, salted contents, and the parts of long lists.

>>> files = Files({"manifest.json": b"{}"}, {"entries-0000.bin": lambda: b"part"})
>>> sorted(files), files["entries-0000.bin"]
(['entries-0000.bin', 'manifest.json'], b'part')

A manifest is public and lists the SHA-256 and the size of every file. With one row, `routes` or
`values` has only a few possible contents, so anyone who reads the store, or a digest in Airflow,
could find the content by trial, even though the file itself is encrypted. So an encrypted file is

    salt (32 bytes) | length of the content (8 bytes, little endian) | content | zeros

and digest, size and encryption apply to this whole. The salt is derived from the publisher's secret
and the file's place, so a retry produces the same bytes. Zeros pad it to a multiple of `STEP`
bytes; below `FEW` rows, they pad it to a size that depends only on public row and column counts.
Without encryption there is no salt: everyone who can read the store can read the file.
"""

import re
from collections.abc import Callable, Iterator, Mapping

import numpy as np
import polars as pl
import pyarrow as pa

from opboost_ops.exchange.rejection import Rejected
from opboost_ops.tables.spill.arrays import BLOCK, Scratch, release_memory, slices

#: The file of a list of points, tags or bits that fits into one part.
ENTRIES = "entries.bin"

_PART = re.compile(r"^(entries-[0-9]{4}\.bin|table-[0-9]{4}\.parquet)(\.enc)?$")

#: Maximum number of parts of an artifact.
MOST_PARTS = 1 << 12

SALT_BYTES = 32

_HEAD = SALT_BYTES + 8

#: Below this many rows, all contents are padded to one size.
FEW = 1000

#: Upper bound of the bytes of a cell or split in Parquet or JSON.
_CELL = 32

#: Upper bound of the bytes of Parquet's metadata for a column, with a name of 128 characters.
_COLUMN = 2048

#: Sizes of encrypted files are multiples of this.
STEP = 4096


class Files(Mapping[str, bytes]):
    """Files by name, of which some are made on demand.

    Args:
        ready: Files in memory.
        later: Functions that return the other files; they may be called several times.
        sizes: Bytes of the other files, if known.
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
        """Return a file's content."""
        return self._later[name]() if name in self._later else self._ready[name]

    def __contains__(self, name: object) -> bool:
        """Return whether a file exists, without making it."""
        return name in self._later or name in self._ready

    def __iter__(self) -> Iterator[str]:
        """Yield all names."""
        yield from self._ready
        yield from self._later

    def __len__(self) -> int:
        """Return the number of files."""
        return len(self._ready) + len(self._later)

    def size(self, name: str) -> int:
        """Return the bytes of a file, without making it if its size is known.

        Args:
            name: Name of the file.
        """
        size = self._sizes.get(name)
        return len(self[name]) if size is None else size


def sizes_of(files: Mapping[str, bytes]) -> dict[str, int]:
    """Return the bytes of each file.

    Args:
        files: Files by name.
    """
    if isinstance(files, Files):
        return {name: files.size(name) for name in files}
    return {name: len(raw) for name, raw in files.items()}


def part_names(count: int) -> list[str]:
    """Return the file names of a list, in order.

    Args:
        count: Number of parts.
    """
    return [ENTRIES] if count == 1 else [f"entries-{i:04}.bin" for i in range(count)]


def is_part(name: str) -> bool:
    """Return whether a file is one of several parts, encrypted or not.

    Args:
        name: Name of the file.
    """
    return _PART.match(name) is not None


def salted(content: bytes, salt: bytes, rows: int, columns: int) -> bytes:
    """Return a file with salt and padding, as it is encrypted.

    Args:
        content: The file.
        salt: 32 bytes that only publisher and receiver know.
        rows: Number of rows of its table, or entries of its document. Public.
        columns: Number of columns of its table. Public.
    """
    size = _HEAD + len(content)
    if rows < FEW:
        width = max(columns, 1)
        size = max(size, _HEAD + _COLUMN * width + _CELL * rows * width)
    padding = -size % STEP + size - _HEAD - len(content)
    return b"".join((salt, len(content).to_bytes(8, "little"), content, bytes(padding)))


def unsalted(raw: bytes, what: str) -> bytes:
    """Return the content of a salted file.

    Args:
        raw: The decrypted file.
        what: Name of its place and of the file, for the error.

    Raises:
        Rejected: It is not a valid salted file.
    """
    length = int.from_bytes(raw[SALT_BYTES:_HEAD], "little")
    if len(raw) < _HEAD or length > len(raw) - _HEAD or raw[_HEAD + length :].strip(b"\0"):
        raise Rejected("malformed", f"{what} is not salted and padded correctly.")
    return raw[_HEAD : _HEAD + length]


def smallest_integers(values: np.ndarray, scratch: Scratch | None = None) -> pa.Array:
    """Convert non-negative integers to the smallest unsigned type that holds them.

    Args:
        values: Integers, shape (n,).
        scratch: Spills arrays to disk if they exceed its memory limit.
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
    """Return a column of integers, int64, shape (n,)."""
    return whole_numbers(table.column(column))


def whole_numbers(column: pa.ChunkedArray) -> np.ndarray:
    """Return a column of integers, int64, shape (n,)."""
    return np.ascontiguousarray(pl.from_arrow(column).to_numpy(), dtype=np.int64)


def narrow_integers(table: pa.Table, column: str) -> np.ndarray:
    """Return a column of integers in its stored type, shape (n,), for tables of many rows."""
    return np.asarray(table.column(column).to_numpy())
