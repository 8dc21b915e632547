"""Caps for a policy that is written from a declaration: what is declared fits, and no more."""

import math
from collections.abc import Iterator, Mapping
from typing import Any

from pydantic import TypeAdapter, ValidationError

from opboost_ops.domain import Domain
from opboost_ops.mechanisms import Mechanism, MissingBit, UnaryEncoding
from opboost_ops.mechanisms.bits import BIT
from opboost_ops.privacy.loss import LossCurve, category_loss, loss_curve

#: How many different values of a person's cell may be released under a policy that is written.
MOST_CHANGES = 2

_MECHANISM: TypeAdapter[Mechanism] = TypeAdapter(Mechanism)

#: Caps are written with four digits, rounded up.
_STEPS = 10_000


def limits(
    feature: Mapping[str, Any], domain: Mapping[str, int], edges: float = 0.0
) -> dict[str, Any]:
    """Caps of a feature's rule at its declared mechanism's own losses.

    They need the domain and the mechanism alone, so they are known before bounds and categories
    are. A loss that is infinite by structure gets no cap, for none would let it pass.

    Args:
        feature: Its entry in the federation file.
        domain: The federation's, ``lower`` and ``upper``.
        edges: What private edges of a number cost once, besides.

    Returns:
        ``max_changes``; and, where losses are finite, ``budget_1`` and ``budget_whole``: the cost
        of that many different values of a person, over any number of trainings, so that no
        release of another map or channel fits in.
    """
    try:
        curves = list(_curves(feature, Domain(domain["lower"], domain["upper"])))
    except ValidationError:
        return {}  # No mechanism: anyone who reads the federation file is told where and why.
    rule: dict[str, Any] = {"max_changes": MOST_CHANGES}
    for end, at in (("1", 0), ("whole", -1)):
        losses = [curve.loss[at] for curve in curves]
        finite = [loss for loss in losses if loss != "inf"]
        if len(finite) == len(losses):
            once = edges if feature.get("type") == "numeric" else 0.0
            rule[f"budget_{end}"] = _up(MOST_CHANGES * sum(finite) + once)
    return rule


def _curves(feature: Mapping[str, Any], domain: Domain) -> Iterator[LossCurve]:
    """Of the feature's own values, and of its missing bit."""
    mechanism = _MECHANISM.validate_python(feature["mechanism"])
    # A changed category costs the same however many there are.
    unary = isinstance(mechanism, UnaryEncoding)
    yield category_loss(mechanism, 2) if unary else loss_curve(mechanism, domain)
    missing = feature.get("missing")
    if isinstance(missing, Mapping) and missing.get("bit") is not None:
        yield loss_curve(MissingBit.model_validate(missing["bit"]), BIT)


def _up(loss: float) -> float:
    return math.ceil(loss * _STEPS) / _STEPS
