"""How many values a domain should have, by what is lost between raw values.

A nominal epsilon is a loss per step, and a step of a larger domain is a smaller part of the raw
range: the same epsilon on ten times as many values is ten times as much loss across the range. So
sizes are compared at one loss between raw values that lie a declared distance apart.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from opboost_ops.domain import Domain, DomainMap
from opboost_ops.mechanisms import Mechanism
from opboost_ops.privacy.division import mechanism_under
from opboost_ops.privacy.loss import loss_curve
from opboost_ops.privacy.planner import Caps

#: Raw values that stand for an even law where there is no sample.
_EVEN = 10_000


@dataclass(frozen=True)
class Size:
    """A feature on a domain of some size, at the same loss between raw values.

    Attributes:
        values: |D|.
        step: What a step is, in the feature's unit.
        mechanism: The best one there.
        steps_near: How many steps two values may be apart that are ``near`` in the feature's unit.
        loss_near: loss(steps_near).
        loss_1: loss(1).
        loss_whole: loss(R - L).
        kept: Share of the raw values' variance that the best guess from a released value explains.
        error: Typical error of that guess (root of the mean square), in the feature's unit.
    """

    values: int
    step: float
    mechanism: Mechanism
    steps_near: int
    loss_near: float
    loss_1: float
    loss_whole: float
    kept: float
    error: float


def compare(
    bounds: tuple[float, float],
    near: float,
    caps: Caps,
    sizes: Sequence[int],
    sample: np.ndarray | None = None,
) -> list[Size]:
    """What each size keeps.

    Args:
        bounds: Of the feature, which lies linearly on the domain.
        near: A distance in its unit.
        caps: On the loss between values that are ``near``, and across the domain.
        sizes: |D|, each at least 2.
        sample: Public raw values, shape (n,); evenly between the bounds when absent.

    Returns:
        A line a size, but for those on which no channel keeps the caps.
    """
    values = np.linspace(*bounds, _EVEN + 1) if sample is None else np.clip(sample, *bounds)
    found = []
    for size in sizes:
        domain = Domain(1, size)
        step = (bounds[1] - bounds[0]) / (size - 1)
        # Two values a whole number of steps apart lie in cells that are as many apart, or one more
        # by rounding alone.
        steps = min(max(1, math.ceil(near / step - 1e-9)), size - 1)
        one = None if caps.step is None else caps.step / steps
        mechanism = mechanism_under(domain, Caps(one, caps.whole))
        if mechanism is None:
            continue
        losses = [float(loss) for loss in loss_curve(mechanism, domain).loss]
        explained, error = kept(values, DomainMap(domain, bounds), mechanism, domain)
        found.append(
            Size(
                size,
                step,
                mechanism,
                steps,
                losses[steps - 1],
                losses[0],
                losses[-1],
                explained,
                error,
            )
        )
    return found


def kept(
    values: np.ndarray,
    mapping: DomainMap,
    mechanism: Mechanism,
    domain: Domain,
    told: np.ndarray | None = None,
) -> tuple[float, float]:
    """Share of raw values' variance that the best guess explains, and that guess's typical error.

    Args:
        values: Raw values inside the bounds, shape (n,).
        mapping: How they lie on the domain.
        mechanism: What releases them.
        domain: Theirs.
        told: What is guessed of each row, shape (n,); the raw values when absent.
    """
    told = values if told is None else told
    codes = mapping.encode(values) - domain.lower
    rows = np.bincount(codes, minlength=domain.size) / len(values)
    sums = np.bincount(codes, told - told.mean(), minlength=domain.size) / len(values)
    law = mechanism.channel(domain).probabilities()
    likely = rows @ law
    used = likely > 0
    explained = float(((sums @ law)[used] ** 2 / likely[used]).sum())
    whole = float(told.var())
    return (explained / whole if whole else 1.0), math.sqrt(max(whole - explained, 0.0))
