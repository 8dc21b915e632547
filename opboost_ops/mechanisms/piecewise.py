"""The Piecewise mechanism (Wang et al., ICDE 2019), rounded to the domain: the paper's baseline."""

from decimal import Decimal
from itertools import pairwise
from typing import Literal

from opboost_ops.domain import Domain
from opboost_ops.mechanisms.channel import FLOOR, TOTAL, Channel, counts_of, precise
from opboost_ops.mechanisms.parameters import Epsilon, Parameters


class Piecewise(Parameters):
    """A density that is high on an interval around x, scaled to [-1, 1], and low elsewhere.

    The real-valued output may lie outside [-1, 1]. It is rounded to the nearest domain value and
    clipped to the domain; both are post-processing.

    Attributes:
        epsilon: Loss between any two values.
    """

    name: Literal["piecewise"] = "piecewise"
    epsilon: Epsilon

    def build(self, domain: Domain) -> Channel:
        """Build the channel on a domain."""
        if self.epsilon >= _NOISELESS_EPSILON:
            diagonal = TOTAL - FLOOR * (domain.size - 1)
            counts = tuple(
                tuple(diagonal if x == y else FLOOR for y in range(domain.size))
                for x in range(domain.size)
            )
            return Channel(domain.values(), domain.values(), counts)
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
        """Return the name and parameters for display."""
        return f"Piecewise, epsilon {self.epsilon:g}"


#: From this epsilon on, every output other than the input has the minimum count, so the channel is
#: written directly. The interval of high density around x has the length
#: 2 / (e^(eps/2) - 1) < 2^-142 and rounds to x as a whole; all other outputs together have a
#: probability below e^(-eps/2) < 2^-144, which rounds to zero counts of 2^-64. The general formula
#: agrees up to an epsilon of about 366, where `precise` no longer has enough digits for reach - 1.
_NOISELESS_EPSILON = 200.0
