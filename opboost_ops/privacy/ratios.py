"""The largest ratio of a channel's probabilities at every distance, exact and fast.

Floats pick the candidates, exact integers decide. Of every pair of counts a, b > 0 the difference
of their float64 logarithms is computed, and every pair that comes within `MARGIN` of the largest
difference is compared again in integers of 128 bits: a b' against a' b.

Why no pair can be missed. Counts are at most 2^64. Turning one into a float64 errs by a relative
2^-53 at most, which moves its logarithm by less than 1.2e-16. Logarithms are at most 44.4 < 64, so
one unit in their last place is at most 2^-47 < 7.2e-15; with four units for the library's
logarithm, which errs by less than one where it was measured, the computed logarithm is within
2.9e-14 of the true one. The difference of two is rounded once more, by at most half such a unit.
In sum a computed difference is within 6.2e-14 of the true one. If a pair attains the true maximum,
its computed difference is at least the largest computed one less 2 x 6.2e-14 < 1.3e-13. `MARGIN`
is 1e-12, more than seven times that.
"""

from collections.abc import Sequence
from fractions import Fraction

import numpy as np

#: Differences of logarithms that are as near as this to the largest are decided by integers.
MARGIN = 1e-12

#: Stands for the logarithm of zero: far below that of any count, and its own equal.
_NONE = -1e6

#: A difference of logarithms above this has a zero on one side.
_INFINITE = 1e5

#: Logarithms at a time, so that a block and its differences stay in a core's cache.
_BLOCK = 1 << 16

_LOW = np.uint64(0xFFFFFFFF)
_HALF = np.uint64(32)


def worst_ratios(counts: Sequence[Sequence[int]]) -> list[Fraction | None]:
    """For t = 1, 2, ...: the largest Pr[y | x] / Pr[y | x'] over |x - x'| <= t; None if infinite.

    Args:
        counts: Integers, shape (inputs, outputs); each row sums to 2^64.
    """
    table = _Table(counts)
    distances = len(counts) - 1
    whole = table.whole()
    result: list[Fraction | None] = []
    worst: Fraction | None = Fraction(1)
    while len(result) < distances:
        worst = table.at_distance(len(result) + 1, worst)
        result.append(worst)
        if worst == whole:
            # Nothing at any distance is larger: it stays so.
            return result + [worst] * (distances - len(result))
    return result


def end_ratios(counts: Sequence[Sequence[int]]) -> tuple[Fraction | None, Fraction | None]:
    """The first and the last of `worst_ratios` alone: |D| times fewer steps than all of them.

    Args:
        counts: Integers, shape (inputs, outputs); each row sums to 2^64.
    """
    table = _Table(counts)
    return table.at_distance(1, Fraction(1)), table.whole()


class _Table:
    """A channel's counts, and their logarithms; one row an output."""

    def __init__(self, counts: Sequence[Sequence[int]]) -> None:
        # A row that is one certain output has the count 2^64, which uint64 does not hold. One
        # less changes nothing: an equal row is as certain, and of another one some output has
        # probability zero here, so that their ratio is infinite.
        rows = [[min(count, 2**64 - 1) for count in row] if 2**64 in row else row for row in counts]
        self._counts = np.ascontiguousarray(np.array(rows, dtype=np.uint64).T)
        self._logs = np.full(self._counts.shape, _NONE)
        np.log(self._counts.astype(np.float64), out=self._logs, where=self._counts > 0)
        outputs, inputs = self._counts.shape
        step = max(1, _BLOCK // inputs)
        self._blocks = [slice(begin, begin + step) for begin in range(0, outputs, step)]
        self._buffer = np.empty((step, inputs))

    def whole(self) -> Fraction | None:
        """The largest ratio at any distance."""
        high, low = self._counts.max(axis=1), self._counts.min(axis=1)
        used = high > 0
        high, low = high[used], low[used]
        return None if (low == 0).any() else _largest(high, low, Fraction(1))

    def at_distance(self, t: int, worst: Fraction | None) -> Fraction | None:
        """The largest ratio between inputs that are t apart, if it is larger than ``worst``.

        Args:
            t: The distance.
            worst: What is known already.
        """
        if worst is None:
            return None
        known = _log(worst)
        largest = []
        for rows in self._blocks:
            difference = self._difference(rows, t)
            largest.append(max(float(difference.max()), -float(difference.min())))
        top = max(largest)
        if top > _INFINITE:
            return None
        if top < known - MARGIN:
            return worst
        least = max(top, known) - MARGIN
        for rows, here in zip(self._blocks, largest, strict=True):
            if here >= least:
                near = np.abs(self._difference(rows, t)) >= least
                a, b = self._counts[rows, t:][near], self._counts[rows, :-t][near]
                used = a > 0
                high, low = np.maximum(a, b)[used], np.minimum(a, b)[used]
                worst = _largest(high, low, worst)
        return worst

    def _difference(self, rows: slice, t: int) -> np.ndarray:
        logs = self._logs[rows]
        buffer = self._buffer[: logs.shape[0], : logs.shape[1] - t]
        np.subtract(logs[:, t:], logs[:, :-t], out=buffer)
        return buffer


def _largest(high: np.ndarray, low: np.ndarray, worst: Fraction) -> Fraction:
    """The largest of ``worst`` and the ratios of counts, exact.

    Args:
        high: uint64, shape (n,).
        low: uint64, shape (n,), positive.
        worst: A ratio of two such counts.
    """
    above, below = worst.numerator, worst.denominator
    while len(high):
        larger = _greater(high, np.uint64(below), low, np.uint64(above))
        high, low = high[larger], low[larger]
        if len(high):
            likely = int(np.argmax(high / low))
            above, below = int(high[likely]), int(low[likely])
    return Fraction(above, below)


def _greater(a: np.ndarray, b: np.uint64, c: np.ndarray, d: np.uint64) -> np.ndarray:
    """Whether a b > c d, in 128 bits; the factors uint64."""
    left, right = _product(a, b), _product(c, d)
    return np.asarray((left[0] > right[0]) | ((left[0] == right[0]) & (left[1] > right[1])))


def _product(a: np.ndarray, b: np.uint64) -> tuple[np.ndarray, np.ndarray]:
    """The upper and the lower 64 bits of a product, uint64; by halves, so that nothing is lost."""
    a1, a0, b1, b0 = a >> _HALF, a & _LOW, b >> _HALF, b & _LOW
    low, middle, other = a0 * b0, a1 * b0, a0 * b1
    carry = (low >> _HALF) + (middle & _LOW) + (other & _LOW)
    upper = a1 * b1 + (middle >> _HALF) + (other >> _HALF) + (carry >> _HALF)
    return upper, a * b


def _log(ratio: Fraction) -> float:
    return float(np.log(float(ratio.numerator)) - np.log(float(ratio.denominator)))
