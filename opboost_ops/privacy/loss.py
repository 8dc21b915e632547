"""The loss curve: the largest log-ratio of the sampled counts at every distance.

The ratios are exact rationals: floating point selects candidates, integers decide.
"""

import math
from collections.abc import Iterable, Sequence
from decimal import ROUND_CEILING, Context, Decimal, localcontext
from fractions import Fraction
from functools import lru_cache
from typing import Literal

import numpy as np
from pydantic import BaseModel, ConfigDict

from opboost_ops.config.columns import Column
from opboost_ops.domain import Domain
from opboost_ops.mechanisms import Mechanism, MissingBit, UnaryEncoding
from opboost_ops.mechanisms.channel import Channel
from opboost_ops.mechanisms.randomised_response import BIT

#: Differences of logarithms within this margin of the largest are compared as integers.
MARGIN = 1e-12

#: Stands for log(0): far below the logarithm of any count, and equal to itself.
_LOG_OF_ZERO = -1e6

#: A difference of logarithms above this has a zero on one side.
_INFINITE = 1e5

#: Logarithms per block: a block and its differences fit into the CPU cache.
_BLOCK = 1 << 16

_LOW = np.uint64(0xFFFFFFFF)

_HALF = np.uint64(32)


def worst_ratios(counts: Sequence[Sequence[int]]) -> list[Fraction | None]:
    """Return max Pr[y | x] / Pr[y | x'] over |x - x'| <= t, for t = 1, 2, ...; None if infinite.

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
            # No distance has a larger ratio, so all remaining entries are equal.
            return result + [worst] * (distances - len(result))
    return result


def end_ratios(counts: Sequence[Sequence[int]]) -> tuple[Fraction | None, Fraction | None]:
    """Return only the first and last of `worst_ratios`, which takes |D| times fewer steps.

    Args:
        counts: Integers, shape (inputs, outputs); each row sums to 2^64.
    """
    table = _Table(counts)
    return table.at_distance(1, Fraction(1)), table.whole()


class _Table:
    """A channel's counts and their logarithms, with one row per output."""

    def __init__(self, counts: Sequence[Sequence[int]]) -> None:
        # A row with one certain output has the count 2^64, which overflows uint64. Using 2^64 - 1
        # is safe: an equal row is also certain, and a different row has an output of probability
        # zero here, so their ratio is infinite.
        rows = [[min(count, 2**64 - 1) for count in row] if 2**64 in row else row for row in counts]
        self._counts = np.ascontiguousarray(np.array(rows, dtype=np.uint64).T)
        self._logs = np.full(self._counts.shape, _LOG_OF_ZERO)
        np.log(self._counts.astype(np.float64), out=self._logs, where=self._counts > 0)
        outputs, inputs = self._counts.shape
        step = max(1, _BLOCK // inputs)
        self._blocks = [slice(begin, begin + step) for begin in range(0, outputs, step)]
        self._buffer = np.empty((step, inputs))

    def whole(self) -> Fraction | None:
        """Return the largest ratio at any distance."""
        high, low = self._counts.max(axis=1), self._counts.min(axis=1)
        used = high > 0
        high, low = high[used], low[used]
        return None if (low == 0).any() else _largest(high, low, Fraction(1))

    def at_distance(self, t: int, worst: Fraction | None) -> Fraction | None:
        """Return the largest ratio between inputs at distance t, or ``worst`` if that is larger.

        Args:
            t: The distance.
            worst: The largest ratio so far.
        """
        if worst is None:
            return None
        logarithm = _log(worst)
        largest = []
        for rows in self._blocks:
            difference = self._difference(rows, t)
            largest.append(max(float(difference.max()), -float(difference.min())))
        top = max(largest)
        if top > _INFINITE:
            return None
        if top < logarithm - MARGIN:
            return worst
        least = max(top, logarithm) - MARGIN
        for rows, block_largest in zip(self._blocks, largest, strict=True):
            if block_largest >= least:
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
    """Return the maximum of ``worst`` and the ratios of counts, exactly.

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
    """Return where a b > c d, in 128-bit arithmetic; the factors are uint64."""
    left, right = _product(a, b), _product(c, d)
    return np.asarray((left[0] > right[0]) | ((left[0] == right[0]) & (left[1] > right[1])))


def _product(a: np.ndarray, b: np.uint64) -> tuple[np.ndarray, np.ndarray]:
    """Return the upper and lower 64 bits of a product, uint64, computed from 32-bit halves."""
    a1, a0, b1, b0 = a >> _HALF, a & _LOW, b >> _HALF, b & _LOW
    low, middle, other = a0 * b0, a1 * b0, a0 * b1
    carry = (low >> _HALF) + (middle & _LOW) + (other & _LOW)
    upper = a1 * b1 + (middle >> _HALF) + (other >> _HALF) + (carry >> _HALF)
    return upper, a * b


def _log(ratio: Fraction) -> float:
    return float(np.log(float(ratio.numerator)) - np.log(float(ratio.denominator)))


_DIGITS = 40


class LossCurve(BaseModel):
    """loss(t) = max over |x - x'| <= t and y of ln(Pr[y | x] / Pr[y | x']).

    Attributes:
        mechanism: Display name of the mechanism.
        epsilon: Its nominal epsilon.
        loss: loss(1)..loss(R - L), rounded up; ``inf`` if a probability is zero by construction.
        certificate: Whether loss(t) <= t epsilon holds for every t of this channel.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    mechanism: str
    epsilon: float
    loss: tuple[float | Literal["inf"], ...]
    certificate: bool


@lru_cache(maxsize=64)
def loss_curve(mechanism: Mechanism | MissingBit, domain: Domain) -> LossCurve:
    """Return the loss curve of a mechanism on a domain."""
    return _curve(mechanism, worst_ratios(mechanism.channel(domain).counts))


@lru_cache(maxsize=64)
def category_loss(mechanism: UnaryEncoding, categories: int) -> LossCurve:
    """Return the loss curve of a whole one-hot row.

    A changed category clears one bit and sets another. Categories have no order, so the loss is
    the same for every distance between their indices.

    Args:
        mechanism: Mechanism of the bits.
        categories: Number of categories.
    """
    clear, set_ = mechanism.channel(BIT).counts
    pairs = list(zip(clear, set_, strict=True))
    ratio = max(Fraction(b, a) for a, b in pairs) * max(Fraction(a, b) for a, b in pairs)
    return _curve(mechanism, [ratio] * (categories - 1))


def column_losses(columns: Iterable[Column]) -> dict[str, LossCurve]:
    """Return the loss curves of released columns, by charge.

    All bits of one nominal feature are one charge; a missing bit is a separate charge. A condition
    on the source of edges is added to the mechanism's name, so that artifacts, ledger and card
    state it.
    """
    columns = list(columns)
    groups = {c.charge: [d for d in columns if d.charge == c.charge] for c in columns}
    losses = {}
    for charge, group in groups.items():
        first = group[0]
        if isinstance(first.mechanism, UnaryEncoding):
            losses[charge] = category_loss(first.mechanism, len(group))
        else:
            losses[charge] = loss_curve(first.mechanism, first.domain)
        if first.guarantee:
            words = f"{losses[charge].mechanism} ({first.guarantee})"
            losses[charge] = losses[charge].model_copy(update={"mechanism": words})
    return losses


def _curve(
    mechanism: Mechanism | MissingBit, ratios: list[Fraction | None] | list[Fraction]
) -> LossCurve:
    loss: list[float | Literal["inf"]] = []
    certificate = True
    for t, ratio in enumerate(ratios, start=1):
        if ratio is None:
            loss.append("inf")
            certificate = False
            continue
        above = _ln_up(ratio)
        loss.append(_float_up(above))
        certificate = certificate and above <= t * Decimal(mechanism.epsilon)
    return LossCurve(
        mechanism=mechanism.label(),
        epsilon=mechanism.epsilon,
        loss=tuple(loss),
        certificate=certificate,
    )


def end_losses(channel: Channel) -> tuple[float, float]:
    """Return only loss(1) and loss(R - L), which takes |D| times fewer steps than the curve.

    Args:
        channel: A channel whose inputs are the values of a domain.

    Returns:
        Both rounded up; infinite if a probability is zero by construction.
    """
    return tuple(  # type: ignore[return-value]
        math.inf if ratio is None else _float_up(_ln_up(ratio))
        for ratio in end_ratios(channel.counts)
    )


def _ln_up(ratio: Fraction) -> Decimal:
    # decimal's ln is correctly rounded; one unit in the last place makes it an upper bound.
    with localcontext(Context(prec=_DIGITS, rounding=ROUND_CEILING)) as context:
        value = (Decimal(ratio.numerator) / Decimal(ratio.denominator)).ln(context)
        return value.next_plus(context)


def _float_up(value: Decimal) -> float:
    near = float(value)
    return near if Decimal(near) >= value else math.nextafter(near, math.inf)
