"""Global-map: the exponential mechanism over the whole domain (OpBoost, section 4.1)."""

from decimal import Decimal
from functools import lru_cache
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from opboost_ops.domain import Domain
from opboost_ops.mechanisms.channel import Channel, counts_of, exponential


class GlobalMap(BaseModel):
    """Pr[y | x] is proportional to exp(-|x - y| epsilon / 2).

    The bounded discrete Laplace law of scale 2 / epsilon is the same distribution, so both of
    the paper's samplers name one channel.

    Attributes:
        epsilon: Loss per unit of distance, certified for the very channel that is built.
        sampler: The paper's name for it; both mean the same here.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    name: Literal["global_map"] = "global_map"
    epsilon: float = Field(gt=0, le=1000)
    sampler: Literal["exponential", "bounded_laplace"] = "exponential"

    def channel(self, domain: Domain) -> Channel:
        """The exact channel on a domain; built once."""
        return _channel(self.epsilon, domain)

    def label(self) -> str:
        """What people read."""
        return f"Global-map, epsilon {self.epsilon:g}"


@lru_cache(maxsize=64)
def _channel(epsilon: float, domain: Domain) -> Channel:
    half = Decimal(epsilon) / 2
    weights = [exponential(-half * distance) for distance in range(domain.size)]
    counts = tuple(
        counts_of([weights[abs(x - y)] for y in range(domain.size)]) for x in range(domain.size)
    )
    return Channel(domain.values(), domain.values(), counts)
