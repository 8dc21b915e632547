"""The loss curve: the largest ratios of the counts that are sampled, at every distance.

Its ratios are exact rationals (`ratios`: floats pick the candidates, integers decide).
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
    """True where a b > c d, in 128 bits; the factors uint64."""
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


_DIGITS = 40


class LossCurve(BaseModel):
    """loss(t) = max over |x - x'| <= t and y of ln(Pr[y | x] / Pr[y | x']).

    Attributes:
        mechanism: Its name for people.
        epsilon: Its nominal epsilon.
        loss: loss(1)..loss(R - L), rounded up; ``inf`` where a probability is zero by structure.
        certificate: Whether loss(t) <= t epsilon holds for every t of this very channel.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    mechanism: str
    epsilon: float
    loss: tuple[float | Literal["inf"], ...]
    certificate: bool


@lru_cache(maxsize=64)
def loss_curve(mechanism: Mechanism | MissingBit, domain: Domain) -> LossCurve:
    """The loss curve of a mechanism on a domain."""
    return _curve(mechanism, worst_ratios(mechanism.channel(domain).counts))


@lru_cache(maxsize=64)
def category_loss(mechanism: UnaryEncoding, categories: int) -> LossCurve:
    """The loss curve of a whole one-hot group.

    A changed category clears one bit and sets another. Categories have no order, so the loss is
    the same for every distance between their positions.

    Args:
        mechanism: What randomises the bits.
        categories: How many there are.
    """
    clear, set_ = mechanism.channel(BIT).counts
    pairs = list(zip(clear, set_, strict=True))
    ratio = max(Fraction(b, a) for a, b in pairs) * max(Fraction(a, b) for a, b in pairs)
    return _curve(mechanism, [ratio] * (categories - 1))


def column_losses(columns: Iterable[Column]) -> dict[str, LossCurve]:
    """The loss curves of released columns, by what they are charged to.

    The bits of one category are one charge; a missing bit is a charge of its own. What hangs on
    where edges come from is said beside the mechanism, so that artifacts, ledger and card say it.
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
    """loss(1) and loss(R - L) alone: |D| times fewer steps than the whole curve.

    Args:
        channel: Any channel whose inputs are a domain's values.

    Returns:
        Both rounded up; infinite where a probability is zero by structure.
    """
    return tuple(  # type: ignore[return-value]
        math.inf if ratio is None else _float_up(_ln_up(ratio))
        for ratio in end_ratios(channel.counts)
    )


def _ln_up(ratio: Fraction) -> Decimal:
    # decimal's ln is correctly rounded; one more unit in the last place bounds it from above.
    with localcontext(Context(prec=_DIGITS, rounding=ROUND_CEILING)) as context:
        value = (Decimal(ratio.numerator) / Decimal(ratio.denominator)).ln(context)
        return value.next_plus(context)


def _float_up(value: Decimal) -> float:
    near = float(value)
    return near if Decimal(near) >= value else math.nextafter(near, math.inf)
