"""The loss curve: what a release costs, from the very counts that are sampled.

Its ratios are exact rationals (`ratios`: floats pick the candidates, integers decide).
"""

import math
from collections.abc import Iterable
from decimal import ROUND_CEILING, Context, Decimal, localcontext
from fractions import Fraction
from functools import lru_cache
from typing import Literal

from pydantic import BaseModel, ConfigDict

from opboost_ops.config.columns import Column
from opboost_ops.domain import Domain
from opboost_ops.mechanisms import Mechanism, MissingBit, UnaryEncoding
from opboost_ops.mechanisms.bits import BIT
from opboost_ops.mechanisms.channel import Channel
from opboost_ops.privacy.ratios import end_ratios, worst_ratios

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
