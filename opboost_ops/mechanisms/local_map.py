"""Local-map: a value inside the own partition (OpBoost, section 4.2)."""

from decimal import Decimal
from functools import lru_cache
from typing import Literal, Self

from pydantic import Field, model_validator

from opboost_ops.domain import Domain
from opboost_ops.mechanisms.channel import Channel, counts_of
from opboost_ops.mechanisms.parameters import Epsilon, Parameters, Sampler, decay
from opboost_ops.mechanisms.partitions import Partitions


class LocalMap(Parameters):
    """Inside the partition of x, Pr[y | x] ∝ exp(-|x - y| epsilon / 2); outside it, nothing.

    The partition itself is disclosed exactly: values of different partitions have infinite loss.

    Attributes:
        epsilon: Loss per unit of distance inside a partition.
        theta: Length of a partition, anchored at L, the last one cut at R.
        edges: Uneven partitions instead: the first value of every partition but the first.
        sampler: The paper's name for it.
    """

    name: Literal["local_map"] = "local_map"
    epsilon: Epsilon
    theta: int | None = Field(default=None, ge=1)
    edges: tuple[int, ...] | None = None
    sampler: Sampler = "exponential"

    @model_validator(mode="after")
    def _one_kind_of_partition(self) -> Self:
        if (self.theta is None) == (self.edges is None):
            raise ValueError("give either theta or edges")
        return self

    def channel(self, domain: Domain) -> Channel:
        """The exact channel on a domain; built once."""
        return _channel(self, domain)

    def label(self) -> str:
        """What people read."""
        kind = f"theta {self.theta}" if self.edges is None else "declared partitions"
        return f"Local-map, epsilon {self.epsilon:g}, {kind} (the partition is disclosed)"


@lru_cache(maxsize=64)
def _channel(mechanism: LocalMap, domain: Domain) -> Channel:
    parts = (
        Partitions.of_length(domain, mechanism.theta)
        if mechanism.theta is not None
        else Partitions.declared(domain, mechanism.edges or ())
    )
    by_value = decay(Decimal(mechanism.epsilon), domain.size)
    rows = []
    for x in range(domain.lower, domain.upper + 1):
        weights = [Decimal(0)] * domain.size
        for y in parts.members(parts.index(x)):
            weights[y - domain.lower] = by_value[abs(x - y)]
        rows.append(counts_of(weights))
    return Channel(domain.values(), domain.values(), tuple(rows))
