"""The clamped geometric mechanism: a step costs epsilon wherever it is taken.

The geometric mechanism of Ghosh, Roughgarden and Sundararajan (STOC 2009), whose outputs beyond the
domain are moved to its ends. Global-map normalises each row by itself: its loss for one step is
only about half of its epsilon in the middle and more at the ends. Here no row is normalised, so
that loss(t) is t epsilon for every pair of values, and nothing of what is charged goes unused.
"""

from decimal import Decimal
from typing import Annotated, Literal

from pydantic import Field

from opboost_ops.domain import Domain
from opboost_ops.errors import ConfigError
from opboost_ops.mechanisms.channel import Channel, apportioned, keeps_steps, precise
from opboost_ops.mechanisms.parameters import Parameters

#: Below this, counts are too coarse to tell neighbouring rows apart as exactly as is certified:
#: the floor gives a step 4096 (e^epsilon - 1) counts of room, and rounding takes 1 + e^epsilon.
LEAST_EPSILON = 0.001
FineEpsilon = Annotated[float, Field(ge=LEAST_EPSILON, le=1000)]


class Geometric(Parameters):
    """y = x + two-sided geometric noise, clamped to the domain.

    With a = e^(-epsilon), Pr[y | x] is (1 - a) / (1 + a) a^|x - y| inside, and a^|x - y| / (1 + a)
    at both ends. Its loss(t) is t epsilon, up to the floor of all channels, which no loss passes
    beyond about 36.

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
            apportioned(
                [(ends if y in (0, last) else inside)[abs(x - y)] for y in range(domain.size)]
            )
            for x in range(domain.size)
        )
        if not keeps_steps(counts, self.epsilon):
            raise ConfigError(
                f"The clamped geometric channel of epsilon {self.epsilon:g} on {domain.size} "
                "values does not keep its own loss in whole counts.",
                "Declare a larger epsilon, or a smaller domain.",
            )
        return Channel(domain.values(), domain.values(), counts)

    def label(self) -> str:
        """Name and parameters, for people to read."""
        return f"Clamped geometric, epsilon {self.epsilon:g}"
