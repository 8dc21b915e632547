"""Caps for a policy that is written from a declaration: what is declared fits, and no more."""

import math
from collections.abc import Iterable, Iterator, Mapping
from fractions import Fraction
from typing import Any

from pydantic import ValidationError

from opboost_ops.config.feature import Feature
from opboost_ops.domain import Domain
from opboost_ops.mechanisms import UnaryEncoding
from opboost_ops.mechanisms.bits import BIT
from opboost_ops.privacy.loss import LossCurve, category_loss, loss_curve

#: How many releases of a feature fit into the budget of a policy that is written.
RELEASES = 1

#: How many months of a month's queries a policy that is written allows in all.
MONTHS = 10

#: Caps are written with four digits, rounded up.
_STEPS = 10_000


def limits(
    feature: Mapping[str, Any], domain: Mapping[str, int], edges: float = 0.0
) -> dict[str, Any]:
    """The budget of a feature's rule at its declared mechanism's own loss.

    It needs the domain and the mechanism alone, so it is known before bounds and categories are. A
    loss that is infinite by structure gets no budget, for none would let it pass.

    Args:
        feature: Its entry in the federation file.
        domain: The federation's, ``lower`` and ``upper``.
        edges: What private edges of a number cost once, besides.

    Returns:
        ``budget`` where the loss is finite: the cost of one release, so that no release of another
        map or channel fits in.
    """
    try:
        parsed = Feature.model_validate(feature)
    except ValidationError:
        return {}  # Anyone who reads the federation file is told where and why.
    curves = list(_curves(parsed, Domain(domain["lower"], domain["upper"])))
    losses = [curve.loss[-1] for curve in curves]
    finite = [loss for loss in losses if loss != "inf"]
    if len(finite) < len(losses):
        return {}
    once = edges if parsed.type == "numeric" else 0.0
    return {"budget": _up(RELEASES * sum(finite) + once)}


def all_features_limit(budgets: Iterable[float | None]) -> float | None:
    """The budget of all columns together: the sum of theirs; None where one has none.

    Args:
        budgets: Of the columns.
    """
    columns = list(budgets)
    finite = [Fraction(budget) for budget in columns if budget is not None]
    if not finite or len(finite) < len(columns):
        return None
    return math.ceil(sum(finite) * _STEPS) / _STEPS


def _curves(feature: Feature, domain: Domain) -> Iterator[LossCurve]:
    """Of the feature's own values, and of its missing bit."""
    if isinstance(feature.mechanism, UnaryEncoding):
        # A changed category costs the same however many there are.
        yield category_loss(feature.mechanism, 2)
    elif feature.mechanism is not None:
        yield loss_curve(feature.mechanism, feature.domain_in(domain))
    if feature.missing_bit is not None:
        yield loss_curve(feature.missing_bit, BIT)


def _up(loss: float) -> float:
    return math.ceil(loss * _STEPS) / _STEPS
