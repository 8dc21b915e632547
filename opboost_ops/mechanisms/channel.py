"""A mechanism's exact channel: Pr[y | x] as integer counts out of 2^64, as they are sampled.

The rules:

1. A row for each domain value, a column for each output. Every row sums to 2^64.
2. Counts are made of the mechanism's weights in 80 digits; what is sampled is the counts, so a
   claim about a guarantee is a claim about them.
3. An output that a row can give has a count of at least 4096; one that it cannot give has 0, and
   makes the loss infinite.
4. One 64-bit word chooses an output, through an alias table that gives the counts back exactly.

In the order of the calls:

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

#: Fraction bits of the power that counts are certified against.
_BITS = 200

#: Least count of an output in a row's support: a mixture with the uniform law, which cannot
#: raise a finite loss, and without which tails would round to zero and losses to infinity.
FLOOR = 4096

#: Decimal digits of the arithmetic between a mechanism's weights and its counts.
PRECISION = 80


@dataclass(frozen=True, eq=False)
class AliasTable:
    """Vose's alias method in integers, one table a row of counts.

    With K = 2^bits columns, the top bits of one 64-bit word choose a column j, and the rest r
    gives j if r < threshold[j], else alias[j]. Choosing a column by multiplication would not be
    exact (2^64 mod 10 = 6), so columns are padded instead.

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
        """Build the table whose draws have exactly these counts.

        Args:
            counts: Non-negative integers, shape (rows, outputs); each row sums to 2^64.
        """
        # At least two columns: with one, the capacity 2^64 would not fit into a threshold.
        bits = max(1, (len(counts[0]) - 1).bit_length())
        columns = 2**bits
        threshold = np.zeros((len(counts), columns), dtype=np.uint64)
        alias = np.zeros((len(counts), columns), dtype=np.int64)
        for i, row in enumerate(counts):
            thresholds, aliases = _vose(row, columns, TOTAL // columns)
            threshold[i], alias[i] = thresholds, aliases
        return cls(bits, threshold, alias)

    def sample(self, rows: np.ndarray, words: np.ndarray) -> np.ndarray:
        """One output a word, in constant time: no rejection, no float.

        Args:
            rows: Which row of counts, integers, shape (n,).
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
        """The counts that this table samples, recomputed from its columns alone."""
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
    left = list(row) + [0] * (columns - len(row))
    threshold, alias = [capacity] * columns, list(range(columns))
    small = [j for j in range(columns) if left[j] < capacity]
    large = [j for j in range(columns) if left[j] > capacity]
    while small:
        j, donor = small.pop(), large[-1]
        threshold[j], alias[j] = left[j], donor
        left[donor] -= capacity - left[j]
        if left[donor] <= capacity:
            large.pop()
            if left[donor] < capacity:
                small.append(donor)
    return threshold, alias


def apportioned(shares: Sequence[Decimal]) -> tuple[int, ...]:
    """A row's counts, each less than one off: floors, then one more by the largest remainders.

    Where one output took the whole remainder, as in other channels, its neighbours' ratio could
    pass e^epsilon: here every ratio is as large as it may be, and the floor leaves little room.

    Args:
        shares: Probabilities that sum to 1 within 10^-30.
    """
    with precise():
        spread = Decimal(TOTAL - FLOOR * len(shares))
        exact = [spread * share for share in shares]
        counts = [int(value) for value in exact]
        rest = [value - count for value, count in zip(exact, counts, strict=True)]
        missing = TOTAL - FLOOR * len(shares) - sum(counts)
        order = sorted(range(len(shares)), key=lambda y: (rest[y], shares[y]), reverse=True)
    for y in order[:missing]:
        counts[y] += 1
    return tuple(FLOOR + count for count in counts)


def keeps_steps(counts: Sequence[Sequence[int]], epsilon: float) -> bool:
    """True if a step costs at most epsilon, in integers.

    Steps multiply, so that loss(t) <= t epsilon follows for all t.

    Args:
        counts: A row an input, in the order of the domain.
        epsilon: Of a step.
    """
    power = _power(epsilon)
    return all(
        max(a, b) << _BITS <= min(a, b) * power
        for row, other in pairwise(counts)
        for a, b in zip(row, other, strict=True)
    )


def keeps_everywhere(counts: Sequence[Sequence[int]], most: float) -> bool:
    """True if the loss between any two inputs is at most ``most``, in integers.

    Args:
        counts: A row an input.
        most: The loss.
    """
    power = _power(most)
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
        spans: The least and the greatest domain value for which an output stands, int64, shape
            (outputs, 2); None where it stands for itself. Public, and no part of the noise's key.
    """

    inputs: np.ndarray
    outputs: np.ndarray
    counts: tuple[tuple[int, ...], ...]
    spans: np.ndarray | None = None

    def __post_init__(self) -> None:
        if any(sum(row) != TOTAL or min(row) < 0 for row in self.counts):
            raise ValueError("every row of a channel sums to 2^64")

    @cached_property
    def alias(self) -> AliasTable:
        """The table that is sampled; it reproduces the counts exactly."""
        return AliasTable.build(self.counts)

    def probabilities(self) -> np.ndarray:
        """Counts as float64 probabilities, for showing and planning only."""
        return np.array(self.counts, dtype=np.float64) / TOTAL

    def span(self, released: np.ndarray) -> np.ndarray:
        """Of which domain values released ones speak: between a bucket's ends, or of themselves.

        Args:
            released: Outputs of this channel, integers, shape (n,).

        Returns:
            Least and greatest value, int64, shape (n, 2).
        """
        if self.spans is None:
            return np.stack([released, released], axis=1)
        return np.asarray(self.spans[np.searchsorted(self.outputs, released)])

    def square(self) -> np.ndarray:
        """Pr[output | value] with one value for each output, float64, shape (outputs, outputs).

        Of an output that stands for several values their mean; those of a bucket are the same.
        """
        law = self.probabilities()
        rows = []
        for first, last in self.span(self.outputs) - self.inputs[0]:
            mine = law[first : last + 1]
            rows.append(mine[0] if (mine == mine[0]).all() else mine.mean(axis=0))
        return np.array(rows)

    def digest(self) -> bytes:
        """Sha256 of values and counts."""
        return self._digest

    @cached_property
    def _digest(self) -> bytes:
        facts = (self.inputs.tolist(), self.outputs.tolist(), self.counts)
        return hashlib.sha256(repr(facts).encode()).digest()


def counts_of(weights: Sequence[Decimal]) -> tuple[int, ...]:
    """A row's counts from its weights; a weight of zero is outside the support.

    Over the n outputs of the support, count = 4096 + round((2^64 - 4096 n) p), and the likeliest
    output takes the remainder.

    Args:
        weights: Non-negative, in any scale.
    """
    with precise():
        support = [i for i, weight in enumerate(weights) if weight > 0]
        whole = sum((weights[i] for i in support), Decimal(0))
        spread = TOTAL - FLOOR * len(support)
        # Less than a quarter of a count rounds to none: the far tails of a large domain.
        negligible = whole / (4 * TOTAL)
        counts = [0] * len(weights)
        for i in support:
            counts[i] = FLOOR
            if weights[i] > negligible:
                counts[i] += int((spread * weights[i] / whole).to_integral_value())
    likeliest = max(support, key=lambda i: counts[i])
    counts[likeliest] += TOTAL - sum(counts)
    return tuple(counts)


def precise() -> AbstractContextManager[Context]:
    """The decimal arithmetic of all channels, whatever the caller's own is set to.

    A channel's digest keys the noise, so its counts may depend on nothing but its parameters.
    """
    return localcontext(Context(prec=PRECISION, rounding=ROUND_HALF_EVEN))
