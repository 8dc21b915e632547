"""A mechanism's exact channel: Pr[y | x] as integer counts out of 2^64.

1. There is one row per domain value and one column per output. Every row sums to 2^64.
2. Counts are computed from the mechanism's weights with 80 decimal digits. Sampling uses the
   counts, so the privacy loss is computed from the counts, too.
3. An output in a row's support has a count of at least 4096. An output outside the support has
   the count 0, and the loss is infinite.
4. One 64-bit word selects an output, through an alias table that reproduces the counts exactly.

The steps in order:

>>> from opboost_ops.domain import Domain
>>> from opboost_ops.mechanisms import GlobalMap
>>> channel = GlobalMap(epsilon=2.0).channel(Domain(1, 3))
>>> {sum(row) for row in channel.counts} == {2**64}
True
>>> channel.probabilities().round(2).tolist()
[[0.67, 0.24, 0.09], [0.21, 0.58, 0.21], [0.09, 0.24, 0.67]]
>>> [tuple(row[:3]) for row in channel.alias.rebuilt_counts()] == list(channel.counts)
True
>>> from opboost_ops.privacy.loss import loss_curve
>>> [round(loss, 3) for loss in loss_curve(GlobalMap(epsilon=2.0), Domain(1, 3)).loss]
[1.144, 2.0]
"""

import hashlib
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from decimal import ROUND_HALF_EVEN, Context, Decimal, localcontext
from functools import cached_property
from itertools import pairwise

import numpy as np

#: Every row of counts sums to this.
TOTAL = 2**64

#: Fraction bits of e^loss in the comparisons that certify a bound.
_BITS = 200

#: Minimum count of an output in a row's support. This mixes the row with the uniform distribution,
#: which cannot increase a finite loss; without it, tails would round to zero and the loss would be
#: infinite.
FLOOR = 4096

#: Decimal digits of the arithmetic between a mechanism's weights and its counts.
PRECISION = 80


@dataclass(frozen=True, eq=False)
class AliasTable:
    """Vose's alias method in integers, with one table per row of counts.

    With K = 2^bits columns, the top bits of a 64-bit word select a column j, and the remaining
    bits r select j if r < threshold[j], else alias[j]. Selecting a column by multiplication would
    not be exact (2^64 mod 10 = 6), so columns are padded to a power of two.

    Attributes:
        bits: log2 of the number of columns.
        threshold: uint64, shape (rows, K), each at most 2^(64 - bits).
        alias: int64, shape (rows, K).
    """

    bits: int
    threshold: np.ndarray
    alias: np.ndarray

    @classmethod
    def build(cls, counts: Sequence[Sequence[int]]) -> "AliasTable":
        """Build the table that samples exactly these counts.

        Args:
            counts: Non-negative integers, shape (rows, outputs); each row sums to 2^64.
        """
        # At least two columns: with one column, the capacity 2^64 would overflow a threshold.
        bits = max(1, (len(counts[0]) - 1).bit_length())
        columns = 2**bits
        threshold = np.zeros((len(counts), columns), dtype=np.uint64)
        alias = np.zeros((len(counts), columns), dtype=np.int64)
        for i, row in enumerate(counts):
            thresholds, aliases = _vose(row, columns, TOTAL // columns)
            threshold[i], alias[i] = thresholds, aliases
        return cls(bits, threshold, alias)

    def sample(self, rows: np.ndarray, words: np.ndarray) -> np.ndarray:
        """Sample one output per word, in constant time, without rejection or floating point.

        Args:
            rows: Indices of rows of counts, integers, shape (n,).
            words: Uniform 64-bit words, uint64, shape (n,).

        Returns:
            Output indices, int64, shape (n,).
        """
        rest_bits = np.uint64(64 - self.bits)
        column = (words >> rest_bits).astype(np.int64)
        rest = words & np.uint64((1 << (64 - self.bits)) - 1)
        cell = rows.astype(np.int64) * (1 << self.bits) + column
        keep = rest < self.threshold.reshape(-1)[cell]
        return np.where(keep, column, self.alias.reshape(-1)[cell])

    def rebuilt_counts(self) -> list[list[int]]:
        """Return the counts that this table samples, recomputed from its columns."""
        capacity = TOTAL >> self.bits
        result = []
        for thresholds, aliases in zip(self.threshold.tolist(), self.alias.tolist(), strict=True):
            counts = [0] * len(thresholds)
            for column, (threshold, other) in enumerate(zip(thresholds, aliases, strict=True)):
                counts[column] += threshold
                counts[other] += capacity - threshold
            result.append(counts)
        return result


def _vose(row: Sequence[int], columns: int, capacity: int) -> tuple[list[int], list[int]]:
    remaining = list(row) + [0] * (columns - len(row))
    threshold, alias = [capacity] * columns, list(range(columns))
    small = [j for j in range(columns) if remaining[j] < capacity]
    large = [j for j in range(columns) if remaining[j] > capacity]
    while small:
        j, donor = small.pop(), large[-1]
        threshold[j], alias[j] = remaining[j], donor
        remaining[donor] -= capacity - remaining[j]
        if remaining[donor] <= capacity:
            large.pop()
            if remaining[donor] < capacity:
                small.append(donor)
    return threshold, alias


def apportion(shares: Sequence[Decimal]) -> tuple[int, ...]:
    """Round a row's probabilities to counts by the largest-remainder method.

    Every count is off by less than one. `counts_of` gives the whole remainder to one output; here
    that could push the ratio of neighbouring rows above e^epsilon, because every ratio already is
    at its limit and the floor leaves little room.

    Args:
        shares: Probabilities that sum to 1 within 10^-30.
    """
    with precise():
        spread = Decimal(TOTAL - FLOOR * len(shares))
        exact = [spread * share for share in shares]
        counts = [int(value) for value in exact]
        remainders = [value - count for value, count in zip(exact, counts, strict=True)]
        missing = TOTAL - FLOOR * len(shares) - sum(counts)
        order = sorted(range(len(shares)), key=lambda y: (remainders[y], shares[y]), reverse=True)
    for y in order[:missing]:
        counts[y] += 1
    return tuple(FLOOR + count for count in counts)


def keeps_steps(counts: Sequence[Sequence[int]], epsilon: float) -> bool:
    """Return whether the loss between neighbouring inputs is at most epsilon, in exact integers.

    Ratios of neighbours multiply, so loss(t) <= t epsilon follows for every distance t.

    Args:
        counts: One row per input, in the order of the domain.
        epsilon: Bound on the loss per unit of distance.
    """
    power = _power(epsilon)
    return all(
        max(a, b) << _BITS <= min(a, b) * power
        for row, other in pairwise(counts)
        for a, b in zip(row, other, strict=True)
    )


def keeps_everywhere(counts: Sequence[Sequence[int]], max_loss: float) -> bool:
    """Return whether the loss between any two inputs is at most ``max_loss``, in exact integers.

    Args:
        counts: One row per input.
        max_loss: Bound on the loss.
    """
    power = _power(max_loss)
    columns = zip(*counts, strict=True)
    return all(max(column) << _BITS <= min(column) * power for column in columns)


def _power(loss: float) -> int:
    with precise():
        return int(Decimal(loss).exp().next_minus() * (1 << _BITS))


@dataclass(frozen=True, eq=False)
class Channel:
    """Pr[output | input] of a mechanism.

    Attributes:
        inputs: Domain values, int64, one per row.
        outputs: Released values, int64, one per column.
        counts: Integers of shape (inputs, outputs); each row sums to 2^64.
        spans: The lowest and the highest domain value that an output represents, int64, shape
            (outputs, 2); None if every output represents only itself. Public; not in the digest.
    """

    inputs: np.ndarray
    outputs: np.ndarray
    counts: tuple[tuple[int, ...], ...]
    spans: np.ndarray | None = None

    def __post_init__(self) -> None:
        if any(sum(row) != TOTAL or min(row) < 0 for row in self.counts):
            raise ValueError("every row of a channel must sum to 2^64, without negative counts")

    @cached_property
    def alias(self) -> AliasTable:
        """The alias table, which reproduces the counts exactly."""
        return AliasTable.build(self.counts)

    def probabilities(self) -> np.ndarray:
        """Return the counts as float64 probabilities, for display and planning only."""
        return np.array(self.counts, dtype=np.float64) / TOTAL

    def span(self, released: np.ndarray) -> np.ndarray:
        """Return the range of domain values that each released value represents.

        Args:
            released: Outputs of this channel, integers, shape (n,).

        Returns:
            Lowest and highest value, int64, shape (n, 2).
        """
        if self.spans is None:
            return np.stack([released, released], axis=1)
        return np.asarray(self.spans[np.searchsorted(self.outputs, released)])

    def square(self) -> np.ndarray:
        """Return Pr[output | value] with one row per output, float64, shape (outputs, outputs).

        The row of an output that represents several values is their mean.
        """
        probabilities = self.probabilities()
        spans = self.span(self.outputs) - self.inputs[0]
        return np.array([probabilities[first : last + 1].mean(axis=0) for first, last in spans])

    def digest(self) -> bytes:
        """Return the SHA-256 digest of inputs, outputs and counts."""
        return self._digest

    @cached_property
    def _digest(self) -> bytes:
        content = (self.inputs.tolist(), self.outputs.tolist(), self.counts)
        return hashlib.sha256(repr(content).encode()).digest()


def counts_of(weights: Sequence[Decimal]) -> tuple[int, ...]:
    """Convert a row's weights to counts; an output of weight zero is outside the support.

    Over the n outputs of the support, count = 4096 + round((2^64 - 4096 n) p), and the most
    probable output takes the remainder.

    Args:
        weights: Non-negative, not necessarily normalised.
    """
    with precise():
        support = [i for i, weight in enumerate(weights) if weight > 0]
        sum_of_weights = sum((weights[i] for i in support), Decimal(0))
        spread = TOTAL - FLOOR * len(support)
        # Less than a quarter of a count rounds to zero: this skips the far tails of large domains.
        negligible = sum_of_weights / (4 * TOTAL)
        counts = [0] * len(weights)
        for i in support:
            counts[i] = FLOOR
            if weights[i] > negligible:
                counts[i] += int((spread * weights[i] / sum_of_weights).to_integral_value())
    likeliest = max(support, key=lambda i: counts[i])
    counts[likeliest] += TOTAL - sum(counts)
    return tuple(counts)


def precise() -> AbstractContextManager[Context]:
    """Return the decimal context of all channels, independent of the caller's context.

    A channel's counts, and thus its digest, must depend only on its parameters.
    """
    return localcontext(Context(prec=PRECISION, rounding=ROUND_HALF_EVEN))
