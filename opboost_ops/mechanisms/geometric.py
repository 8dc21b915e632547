"""The clamped geometric mechanism, whose loss is exactly epsilon per unit of distance.

This is the geometric mechanism of Ghosh, Roughgarden and Sundararajan (STOC 2009) with outputs
clamped to the domain. Global-map normalises every row, so its loss per unit is about epsilon / 2 in
the middle of the domain and more at its ends. Here no row is normalised: loss(t) = t epsilon for
every pair of values, so the mechanism uses the whole loss that it is charged for.
"""

from decimal import Decimal
from typing import Annotated, Literal

from pydantic import Field

from opboost_ops.domain import Domain
from opboost_ops.errors import ConfigError
from opboost_ops.mechanisms.channel import Channel, apportion, keeps_steps, precise
from opboost_ops.mechanisms.parameters import Parameters

#: Below this epsilon, counts are too coarse to certify the ratio of neighbouring rows: the floor
#: leaves 4096 (e^epsilon - 1) counts of slack, and rounding needs 1 + e^epsilon.
LEAST_EPSILON = 0.001
FineEpsilon = Annotated[float, Field(ge=LEAST_EPSILON, le=1000)]


class Geometric(Parameters):
    """Two-sided geometric noise, with outputs clamped to the domain.

    With a = e^(-epsilon), Pr[y | x] is (1 - a) / (1 + a) a^|x - y| inside the domain, and
    a^|x - y| / (1 + a) at both ends. loss(t) is t epsilon, except that the minimum count limits
    the loss of every channel to about 36.

    Attributes:
        epsilon: Loss per unit of distance, certified for the channel that is built.
    """

    name: Literal["geometric"] = "geometric"
    epsilon: FineEpsilon

    def build(self, domain: Domain) -> Channel:
        """Build the channel on a domain."""
        last = domain.size - 1
        with precise():
            ratio = (-Decimal(self.epsilon)).exp()
            ends = [ratio**distance / (1 + ratio) for distance in range(domain.size)]
            inside = [(1 - ratio) * end for end in ends]
        counts = tuple(
            apportion(
                [(ends if y in (0, last) else inside)[abs(x - y)] for y in range(domain.size)]
            )
            for x in range(domain.size)
        )
        if not keeps_steps(counts, self.epsilon):
            raise ConfigError(
                f"The clamped geometric channel of epsilon {self.epsilon:g} on {domain.size} "
                "values exceeds its declared loss after rounding to integer counts.",
                "Declare a larger epsilon, or a smaller domain.",
            )
        return Channel(domain.values(), domain.values(), counts)

    def label(self) -> str:
        """Return the name and parameters for display."""
        return f"Clamped geometric, epsilon {self.epsilon:g}"
