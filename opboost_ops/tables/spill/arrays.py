"""Arrays in memory, or above a number of rows in unnamed files, and statistics of them."""

import mmap
import tempfile
import weakref
from collections.abc import Callable, Iterable, Iterator
from os import posix_fallocate
from pathlib import Path
from typing import Any

import numpy as np

from opboost_ops.tables.spill.files import private_folder

#: Default number of rows in memory at once.
ROWS = 1 << 20

#: Rows that are processed at once, unless a look-up needs more.
BLOCK = 131_072

#: A partition has this fraction of the rows in memory, because sorting copies it.
_PARTITIONS_IN_MEMORY = 4


#: All mapped files of this process, which belongs to one party and processes them in blocks.
_MAPPED: list[weakref.ref[mmap.mmap]] = []

#: Bits per pass of the radix selection.
_BITS = 16


def track_mapping(mapped: mmap.mmap) -> None:
    """Include a mapped file in `release_memory`."""
    _MAPPED[:] = [reference for reference in _MAPPED if reference() is not None]
    _MAPPED.append(weakref.ref(mapped))


def release_memory() -> None:
    """Release the resident pages of all mapped files; they are read again when needed."""
    for reference in _MAPPED:
        mapped = reference()
        if mapped is not None:
            mapped.madvise(mmap.MADV_DONTNEED)


class Scratch:
    """Spill space of a party's stage.

    Args:
        folder: A folder of the party on a disk with enough space.
        rows: Number of rows in memory at once.
    """

    def __init__(self, folder: Path, rows: int = ROWS) -> None:
        self.folder = folder
        self.rows = rows

    def holds(self, rows: int) -> bool:
        """True if this number of rows fits into memory."""
        return rows <= self.rows

    def zeros(self, rows: int, kind: Any) -> np.ndarray:
        """Return an array of zeros to be filled, in memory or on disk.

        Args:
            rows: Number of rows.
            kind: Type of a row, with one or several values.

        Raises:
            OSError: The disk has too little space; nothing was written.
        """
        kind = np.dtype(kind)
        size = rows * kind.itemsize
        if self.holds(rows) or not size:
            return np.zeros(rows, dtype=kind)
        with self.file() as file:
            # Allocated now: a full disk would later raise a signal (SIGBUS) instead of an error.
            posix_fallocate(file.fileno(), 0, size)
            mapped = mmap.mmap(file.fileno(), size)
        track_mapping(mapped)
        return np.ndarray(rows, dtype=kind, buffer=mapped)

    def filled(self, rows: int, kind: Any, blocks: Iterable[np.ndarray]) -> np.ndarray:
        """Concatenate blocks into an array, in memory or on disk.

        Args:
            rows: Total number of rows; missing ones are zero.
            kind: Type of a row.
            blocks: The rows, in blocks.
        """
        array, end = self.zeros(rows, kind), 0
        for block in blocks:
            begin, end = end, end + len(block)
            array[begin:end] = block
            release_memory()
        return array

    def file(self) -> Any:
        """Open an unnamed file."""
        private_folder(self.folder)
        return tempfile.TemporaryFile(dir=self.folder, buffering=0)

    def part_rows(self) -> int:
        """Return the approximate number of rows per partition."""
        return max(self.rows // _PARTITIONS_IN_MEMORY, 1)


def slices(rows: int, size: int = 0) -> Iterator[slice]:
    """Yield slices of rows, and release the memory of mapped files after each.

    Args:
        rows: Number of rows.
        size: Maximum rows per slice; `BLOCK` by default.
    """
    size = size or BLOCK
    for begin in range(0, rows, size):
        yield slice(begin, min(begin + size, rows))
        release_memory()


def total(column: np.ndarray) -> float:
    """Sum a column pairwise as `numpy.sum` does, with the same result.

    Args:
        column: float64, in memory or mapped, shape (n,).
    """
    if len(column) <= BLOCK:
        result = float(column.sum())
        release_memory()
        return result
    half = len(column) // 2
    half -= half % 8
    return total(column[:half]) + total(column[half:])


def nth_smallest(blocks: Callable[[], Iterator[np.ndarray]], n: int) -> float:
    """Return the number at index n of the sorted numbers, by radix selection.

    Args:
        blocks: Yields the numbers, float64, in blocks; called several times.
        n: Index from 0, less than their number.
    """
    prefix, left = 0, n
    for shift in range(64 - _BITS, -1, -_BITS):
        counts = np.zeros(1 << _BITS, dtype=np.int64)
        for block in blocks():
            bits = _order_preserving(block) >> np.uint64(shift)
            bits = bits[bits >> np.uint64(_BITS) == prefix] if shift + _BITS < 64 else bits
            digits = (bits & np.uint64((1 << _BITS) - 1)).astype(np.int64)
            counts += np.bincount(digits, minlength=len(counts))
            release_memory()
        ends = np.cumsum(counts)
        digit = int(np.searchsorted(ends, left, side="right"))
        left -= int(ends[digit] - counts[digit])
        prefix = prefix << _BITS | digit
    bits = np.array([prefix], dtype=np.uint64)
    sign = np.uint64(1 << 63)
    return float(np.where(bits & sign, bits ^ sign, ~bits).view(np.float64)[0])


def _order_preserving(numbers: np.ndarray) -> np.ndarray:
    """Return integers in the order of the numbers, uint64, shape (n,)."""
    bits = np.ascontiguousarray(numbers, dtype=np.float64).view(np.uint64)
    sign = np.uint64(1 << 63)
    return np.where(bits & sign, ~bits, bits | sign)
