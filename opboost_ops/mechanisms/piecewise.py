"""The Piecewise mechanism, rounded to the domain: the paper's baseline (Wang et al., ICDE 2019)."""

from decimal import Decimal
from itertools import pairwise
from typing import Literal

from opboost_ops.domain import Domain
from opboost_ops.mechanisms.channel import FLOOR, TOTAL, Channel, counts_of, precise
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

    def build(self, domain: Domain) -> Channel:
        """Build the channel on a domain."""
        if self.epsilon >= _CERTAIN:
            rare, own = FLOOR, TOTAL - FLOOR * (domain.size - 1)
            certain = tuple(
                tuple(own if x == y else rare for y in range(domain.size))
                for x in range(domain.size)
            )
            return Channel(domain.values(), domain.values(), certain)
        with precise():
            root = (Decimal(self.epsilon) / 2).exp()
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

    def label(self) -> str:
        """Name and parameters, for people to read."""
        return f"Piecewise, epsilon {self.epsilon:g}"


#: From here on an output that is not the input's own has its least count and nothing more, and
#: so the channel is written down. The interval of high density around x has the length
#: 2 / (e^(eps/2) - 1) < 2^-142 and lies within it of x, so wholly in what rounds to x; all else has
#: less than e^(-eps/2) < 2^-144 of the probability, which no count of 2^-64 tells from none.
#: `precise` would agree up to about 366, where its digits no longer hold reach - 1.
_CERTAIN = 200.0
