"""OpBoost's mechanisms: Global-map, Local-map and Adj-map (OpBoost, section 4)."""

from decimal import Decimal
from typing import Literal

from pydantic import Field

from opboost_ops.domain import Domain
from opboost_ops.mechanisms.channel import Channel, counts_of, precise
from opboost_ops.mechanisms.parameters import Epsilon, Parameters, PartitionedParameters, decay


class GlobalMap(Parameters):
    """Pr[y | x] is proportional to exp(-|x - y| epsilon / 2).

    This equals the bounded discrete Laplace distribution of scale 2 / epsilon, so the paper's two
    samplers are one channel.

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
        """Return the name and parameters for display."""
        return f"Global-map, epsilon {self.epsilon:g}"


class LocalMap(PartitionedParameters):
    """Pr[y | x] ∝ exp(-|x - y| epsilon / 2) inside the partition of x, and 0 outside it.

    The partition is disclosed exactly: values of different partitions have infinite loss.
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
        """Return the name and parameters for display."""
        kind = self.partition_label()
        return f"Local-map, epsilon {self.epsilon:g}, {kind} (the partition is disclosed)"


class AdjMap(PartitionedParameters):
    """Sample a partition ∝ exp(-|m - i| epsilon_prt / 2), then a value in it.

    The value has the weight exp(-|x - y| epsilon_ner / 2), where epsilon_ner = epsilon / (alpha +
    theta / |D|) and epsilon_prt = alpha theta epsilon_ner. The nominal loss(t) <= t epsilon does
    not hold for distances up to about a partition's length; the loss curve gives the exact loss.

    With declared edges, theta is the length of the longest partition.

    Attributes:
        alpha: Ratio that divides the budget between partition and value.
    """

    name: Literal["adj_map"] = "adj_map"
    alpha: float = Field(default=1.0, gt=0, le=1000)

    def build(self, domain: Domain) -> Channel:
        """Build the channel on a domain."""
        with precise():
            parts = self.partitions(domain)
            alpha, theta = Decimal(self.alpha), Decimal(parts.longest)
            if self.theta is not None:
                theta = Decimal(self.theta)
            near = Decimal(self.epsilon) / (alpha + theta / domain.size)
            by_value = decay(near, domain.size)
            by_partition = decay(alpha * theta * near, len(parts.starts))
            rows = []
            for x in range(domain.lower, domain.upper + 1):
                home = parts.index(x)
                weights: list[Decimal] = []
                for m in range(len(parts.starts)):
                    inside = [by_value[abs(x - y)] for y in parts.members(m)]
                    share = by_partition[abs(m - home)] / sum(inside, Decimal(0))
                    weights += [share * w for w in inside]
                rows.append(counts_of(weights))
            return Channel(domain.values(), domain.values(), tuple(rows))

    def label(self) -> str:
        """Return the name and parameters for display."""
        kind = self.partition_label()
        return f"Adj-map, epsilon {self.epsilon:g}, {kind}, alpha {self.alpha:g}"
