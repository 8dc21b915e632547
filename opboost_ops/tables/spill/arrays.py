"""Arrays in memory, or beyond a number of rows in files that have no name, and their statistics."""

import mmap
import tempfile
import weakref
from collections.abc import Callable, Iterable, Iterator
from os import posix_fallocate
from pathlib import Path
from typing import Any

import numpy as np

from opboost_ops.tables.spill.files import private_folder

#: Rows that are held at once where a party declares nothing else.
ROWS = 1 << 20

#: Rows that are looked at at a time, where no look-up goes further.
BLOCK = 131_072

#: So many parts take as much memory as all rows that may be held: each is copied when it is sorted.
_SHARE = 4


#: All mapped files of this process: it is one party's, and looks at them a block at a time.
_MAPPED: list[weakref.ref[mmap.mmap]] = []

#: Bits of a number that are told apart at a time.
_BITS = 16


def watch(mapped: mmap.mmap) -> None:
    """Let go of a mapped file, too, when `release_memory` is called."""
    _MAPPED[:] = [each for each in _MAPPED if each() is not None]
    _MAPPED.append(weakref.ref(mapped))


def release_memory() -> None:
    """Let the machine have back what was looked at of mapped files; it is read again."""
    for each in _MAPPED:
        mapped = each()
        if mapped is not None:
            mapped.madvise(mmap.MADV_DONTNEED)


class Scratch:
    """Where a party's stage puts what it cannot hold.

    Args:
        folder: On the disk that has room for it; the party's own.
        rows: How many are held in memory at once.
    """

    def __init__(self, folder: Path, rows: int = ROWS) -> None:
        self.folder = folder
        self.rows = rows

    def holds(self, rows: int) -> bool:
        """True if so many rows are held in memory."""
        return rows <= self.rows

    def zeros(self, rows: int, kind: Any) -> np.ndarray:
        """An array of zeros to be filled, in memory or on disk.

        Args:
            rows: How many.
            kind: Type of a row, of one value or some.

        Raises:
            OSError: The disk has no room for it; nothing was written.
        """
        kind = np.dtype(kind)
        size = rows * kind.itemsize
        if self.holds(rows) or not size:
            return np.zeros(rows, dtype=kind)
        with self.file() as file:
            # Not when a page is first touched, where it would be a signal and no error.
            posix_fallocate(file.fileno(), 0, size)
            mapped = mmap.mmap(file.fileno(), size)
        watch(mapped)
        return np.ndarray(rows, dtype=kind, buffer=mapped)

    def filled(self, rows: int, kind: Any, blocks: Iterable[np.ndarray]) -> np.ndarray:
        """An array of blocks that follow one another, in memory or on disk.

        Args:
            rows: How many the blocks have; zeros stand for those that are missing.
            kind: Type of a row.
            blocks: The rows, some at a time.
        """
        array, end = self.zeros(rows, kind), 0
        for block in blocks:
            begin, end = end, end + len(block)
            array[begin:end] = block
            release_memory()
        return array

    def file(self) -> Any:
        """A file without a name, which its owner alone has open."""
        private_folder(self.folder)
        return tempfile.TemporaryFile(dir=self.folder, buffering=0)

    def part_rows(self) -> int:
        """About how many rows a part has."""
        return max(self.rows // _SHARE, 1)


def slices(rows: int, size: int = 0) -> Iterator[slice]:
    """So many rows, some at a time; what was looked at of mapped files is let go after each.

    Args:
        rows: How many.
        size: Of them at a time at most; `BLOCK` when absent.
    """
    size = size or BLOCK
    for begin in range(0, rows, size):
        yield slice(begin, min(begin + size, rows))
        release_memory()


def total(column: np.ndarray) -> float:
    """The sum of a column, added up in pairs as `numpy.sum` does, so that it is the same.

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


def nth_least(blocks: Callable[[], Iterator[np.ndarray]], n: int) -> float:
    """The number that has n others before it when all are in order.

    Args:
        blocks: Gives the numbers, float64, some at a time, as often as it is called.
        n: From 0; there are more numbers.
    """
    prefix, left = 0, n
    for shift in range(64 - _BITS, -1, -_BITS):
        counts = np.zeros(1 << _BITS, dtype=np.int64)
        for block in blocks():
            bits = _rising(block) >> np.uint64(shift)
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


def _rising(numbers: np.ndarray) -> np.ndarray:
    """Integers that are in the order of the numbers, uint64, shape (n,)."""
    bits = np.ascontiguousarray(numbers, dtype=np.float64).view(np.uint64)
    sign = np.uint64(1 << 63)
    return np.where(bits & sign, ~bits, bits | sign)
