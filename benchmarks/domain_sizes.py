"""How many values a domain should have, by what is lost between raw values.

A nominal epsilon is a loss per step, and a step of a larger domain is a smaller part of the raw
range: the same epsilon on ten times as many values is ten times as much loss across the range. So
sizes are compared at one loss between raw values that lie a declared distance apart, here a ninth
of the range.
"""

import argparse
import json
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from opboost_ops.domain import Domain, DomainMap
from opboost_ops.mechanisms import Mechanism
from opboost_ops.planning.scales import kept
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
        steps: How many steps two values may be apart that are ``near`` in the feature's unit.
        loss_near: loss(steps).
        loss_1: loss(1).
        loss_whole: loss(R - L).
        kept: Share of the raw values' variance that the best guess from a released value explains.
        error: Typical error of that guess (root of the mean square), in the feature's unit.
    """

    values: int
    step: float
    mechanism: Mechanism
    steps: int
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


def main() -> None:
    """Print what each size keeps."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--values", type=int, nargs="+", default=[10, 28, 91])
    parser.add_argument("--loss", type=float, default=1.0, help="between values that are near")
    options = parser.parse_args()
    for line in compare((0.0, 9.0), 1.0, Caps(step=options.loss), options.values):
        print(json.dumps({**vars(line), "mechanism": line.mechanism.label()}))


if __name__ == "__main__":
    main()
