"""Local-map: a value inside the own partition (OpBoost, section 4.2)."""

from decimal import Decimal
from typing import Literal

from opboost_ops.domain import Domain
from opboost_ops.mechanisms.channel import Channel, counts_of
from opboost_ops.mechanisms.parameters import decay
from opboost_ops.mechanisms.partitions import PartitionedParameters


class LocalMap(PartitionedParameters):
    """Inside the partition of x, Pr[y | x] ∝ exp(-|x - y| epsilon / 2); outside it, nothing.

    The partition itself is disclosed exactly: values of different partitions have infinite loss.
    """

    name: Literal["local_map"] = "local_map"

    def build(self, domain: Domain) -> Channel:
        """Build the channel on a domain."""
        parts = self.partitions(domain)
        by_value = decay(Decimal(self.epsilon), domain.size)
        rows = []
        for x in range(domain.lower, domain.upper + 1):
            weights = [Decimal(0)] * domain.size
            for y in parts.members(parts.index(x)):
                weights[y - domain.lower] = by_value[abs(x - y)]
            rows.append(counts_of(weights))
        return Channel(domain.values(), domain.values(), tuple(rows))

    def label(self) -> str:
        """What people read."""
        kind = self.partition_label()
        return f"Local-map, epsilon {self.epsilon:g}, {kind} (the partition is disclosed)"
