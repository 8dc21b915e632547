"""The loss curve: what a release costs, from the very counts that are sampled."""

import math
from collections.abc import Iterable
from decimal import ROUND_CEILING, Context, Decimal, localcontext
from fractions import Fraction
from functools import lru_cache
from itertools import pairwise
from typing import Literal

import numpy as np
from pydantic import BaseModel, ConfigDict

from opboost_ops.config.columns import Column
from opboost_ops.domain import Domain
from opboost_ops.mechanisms import Mechanism, MissingBit, UnaryEncoding
from opboost_ops.mechanisms.channel import Channel

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
    clear, set_ = mechanism.channel().counts
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


def worst_ratios(counts: tuple[tuple[int, ...], ...]) -> list[Fraction | None]:
    """For t = 1, 2, ...: the largest Pr[y | x] / Pr[y | x'] over |x - x'| <= t; None if infinite.

    Args:
        counts: Integers, shape (inputs, outputs).
    """
    # Inputs of one bucket have one row: no two rows are compared twice.
    kinds: dict[tuple[int, ...], int] = {}
    kind = np.array([kinds.setdefault(row, len(kinds)) for row in counts])
    rows = list(kinds)
    compared = np.eye(len(rows), dtype=bool)
    result: list[Fraction | None] = []
    worst: Fraction | None = Fraction(1)
    for t in range(1, len(counts)):
        new = np.flatnonzero(~compared[kind[:-t], kind[t:]])
        for x in new.tolist():
            if compared[kind[x], kind[x + t]]:
                continue
            compared[kind[x], kind[x + t]] = compared[kind[x + t], kind[x]] = True
            for a, b in zip(counts[x], counts[x + t], strict=True):
                high, low = (a, b) if a > b else (b, a)
                if worst is None or high * worst.denominator <= low * worst.numerator:
                    continue
                worst = Fraction(high, low) if low else None
        result.append(worst)
    return result


def end_losses(channel: Channel) -> tuple[float, float]:
    """loss(1) and loss(R - L) alone: |D| times fewer steps than the whole curve.

    Args:
        channel: Any channel whose inputs are a domain's values.

    Returns:
        Both rounded up; infinite where a probability is zero by structure.
    """
    columns = list(zip(*channel.counts, strict=True))
    step = _worst_of(pair for column in columns for pair in pairwise(column))
    whole = _worst_of((max(column), min(column)) for column in columns)
    return tuple(  # type: ignore[return-value]
        math.inf if ratio is None else _float_up(_ln_up(ratio)) for ratio in (step, whole)
    )


def _worst_of(pairs: Iterable[tuple[int, int]]) -> Fraction | None:
    high, low = 1, 1
    for a, b in pairs:
        above, below = (a, b) if a > b else (b, a)
        if above * low > below * high:
            high, low = above, below
    return Fraction(high, low) if low else None


def _ln_up(ratio: Fraction) -> Decimal:
    # decimal's ln is correctly rounded; one more unit in the last place bounds it from above.
    with localcontext(Context(prec=_DIGITS, rounding=ROUND_CEILING)) as context:
        value = (Decimal(ratio.numerator) / Decimal(ratio.denominator)).ln(context)
        return value.next_plus(context)


def _float_up(value: Decimal) -> float:
    near = float(value)
    return near if Decimal(near) >= value else math.nextafter(near, math.inf)
