"""The Piecewise mechanism, rounded to the domain: the paper's baseline (Wang et al., ICDE 2019)."""

from decimal import Decimal
from functools import lru_cache
from itertools import pairwise
from typing import Literal

from opboost_ops.domain import Domain
from opboost_ops.mechanisms.channel import Channel, counts_of, precise
from opboost_ops.mechanisms.parameters import Epsilon, Parameters


class Piecewise(Parameters):
    """Of x scaled to [-1, 1], a density that is high on an interval around x, low elsewhere.

    The real output, which reaches beyond [-1, 1], is rounded to the nearest domain value and
    clipped into the domain; both are post-processing.

    Attributes:
        epsilon: Loss between any two values.
    """

    name: Literal["piecewise"] = "piecewise"
    epsilon: Epsilon

    def channel(self, domain: Domain) -> Channel:
        """The exact channel on a domain; built once."""
        return _channel(self.epsilon, domain)

    def label(self) -> str:
        """What people read."""
        return f"Piecewise, epsilon {self.epsilon:g}"


@lru_cache(maxsize=64)
def _channel(epsilon: float, domain: Domain) -> Channel:
    with precise():
        root = (Decimal(epsilon) / 2).exp()
        reach = (root + 1) / (root - 1)
        low = 1 / (root * root)
        steps = Decimal(domain.size - 1)
        # Between these cuts of [-reach, reach], outputs round to one domain value each.
        cuts = [2 * (Decimal(i) - Decimal("0.5")) / steps - 1 for i in range(1, domain.size)]
        cuts = [-reach, *cuts, reach]
        rows = []
        for i in range(domain.size):
            value = 2 * Decimal(i) / steps - 1
            left = (reach + 1) / 2 * value - (reach - 1) / 2
            right = left + reach - 1
            weights = []
            for a, b in pairwise(cuts):
                high = max(Decimal(0), min(b, right) - max(a, left))
                weights.append(high + low * (b - a - high))
            rows.append(counts_of(weights))
    return Channel(domain.values(), domain.values(), tuple(rows))
