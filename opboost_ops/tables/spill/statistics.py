"""Figures of a column that is not in memory: to the last bit those of numpy, from 2.3 on."""

from collections.abc import Callable, Iterator

import numpy as np

from opboost_ops.tables.spill.arrays import BLOCK, release_memory

#: Bits of a number that are told apart at a time.
_BITS = 16


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
