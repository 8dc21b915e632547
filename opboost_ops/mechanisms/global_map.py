"""Global-map: the exponential mechanism over the whole domain (OpBoost, section 4.1)."""

from decimal import Decimal
from typing import Literal

from opboost_ops.domain import Domain
from opboost_ops.mechanisms.channel import Channel, counts_of
from opboost_ops.mechanisms.parameters import Epsilon, Parameters, decay


class GlobalMap(Parameters):
    """Pr[y | x] is proportional to exp(-|x - y| epsilon / 2).

    The bounded discrete Laplace law of scale 2 / epsilon is the same distribution, so the
    paper's two samplers are one channel.

    Attributes:
        epsilon: Loss per unit of distance, certified for the channel that is built.
    """

    name: Literal["global_map"] = "global_map"
    epsilon: Epsilon

    def build(self, domain: Domain) -> Channel:
        """Build the channel on a domain."""
        weights = decay(Decimal(self.epsilon), domain.size)
        counts = tuple(
            counts_of([weights[abs(x - y)] for y in range(domain.size)]) for x in range(domain.size)
        )
        return Channel(domain.values(), domain.values(), counts)

    def label(self) -> str:
        """What people read."""
        return f"Global-map, epsilon {self.epsilon:g}"
