"""What a loss per step means in a feature's own unit: a step is narrow where its cells are."""

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from opboost_ops.domain import DomainMap
from opboost_ops.privacy.loss import LossCurve


@dataclass(frozen=True)
class RawLosses:
    """Losses of one release of a column, with what its edges cost.

    Attributes:
        loss_1: Of values in neighbouring cells.
        near: A distance in the feature's unit.
        loss_near: Of values so far apart, at worst.
        loss_whole: Of any two values.
        narrowest: Width of the narrowest cell, in the feature's unit.
    """

    loss_1: float
    near: float
    loss_near: float
    loss_whole: float
    narrowest: float


def raw_losses(
    mapping: DomainMap, curve: LossCurve, near: float | None = None, edges: float = 0.0
) -> RawLosses:
    """Losses by steps and by a raw distance.

    Args:
        mapping: How the feature lies on the domain.
        curve: Of the release of its values.
        near: The distance; a step of equal cells when absent.
        edges: What its edges cost besides.
    """
    lower, upper = mapping.bounds
    distance = (upper - lower) / (mapping.domain.size - 1) if near is None else near
    losses = [float(loss) + edges for loss in curve.loss]
    ends = mapping.boundaries()
    steps = most_steps(ends, distance)
    widths = [b - a for a, b in pairwise((lower, *ends, upper)) if b > a]
    return RawLosses(
        losses[0], distance, losses[steps - 1] if steps else edges, losses[-1], min(widths)
    )


def most_steps(ends: tuple[float, ...], near: float) -> int:
    """How many steps of the domain values can be apart that are near in the feature's unit.

    Args:
        ends: Where cells end, rising; a value at an end lies below it.
        near: A distance.
    """
    places = np.asarray(ends)
    # Of two values a hair beyond an end and as far below another as rounding leaves it.
    reached = np.searchsorted(places, places + near * (1 - 1e-9), side="left")
    return int((reached - np.arange(len(places))).max(initial=0))
