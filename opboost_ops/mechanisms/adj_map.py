"""Adj-map: first a partition, then a value inside it (OpBoost, section 4.2)."""

from decimal import Decimal
from functools import lru_cache
from typing import Literal, Self

from pydantic import Field, model_validator

from opboost_ops.domain import Domain
from opboost_ops.mechanisms.channel import Channel, counts_of
from opboost_ops.mechanisms.parameters import Epsilon, Parameters, Sampler, decay
from opboost_ops.mechanisms.partitions import Partitions


class AdjMap(Parameters):
    """A partition ∝ exp(-|m - i| epsilon_prt / 2), then a value ∝ exp(-|x - y| epsilon_ner / 2).

    epsilon_ner = epsilon / (alpha + theta / |D|) and epsilon_prt = alpha theta epsilon_ner. The
    nominal loss(t) <= t epsilon does not hold for t up to about a partition's length; the loss
    curve says what holds.

    Attributes:
        epsilon: Nominal loss per unit of distance.
        theta: Length of a partition, anchored at L, the last one cut at R.
        edges: Uneven partitions instead: the first value of every partition but the first; theta
            is then the longest one's length.
        alpha: How the budget is shared between partition and value.
        sampler: The paper's name for it.
    """

    name: Literal["adj_map"] = "adj_map"
    epsilon: Epsilon
    theta: int | None = Field(default=None, ge=1)
    edges: tuple[int, ...] | None = None
    alpha: float = Field(default=1.0, gt=0, le=1000)
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
        return f"Adj-map, epsilon {self.epsilon:g}, {kind}, alpha {self.alpha:g}"


@lru_cache(maxsize=64)
def _channel(mechanism: AdjMap, domain: Domain) -> Channel:
    parts = (
        Partitions.of_length(domain, mechanism.theta)
        if mechanism.theta is not None
        else Partitions.declared(domain, mechanism.edges or ())
    )
    alpha, theta = Decimal(mechanism.alpha), Decimal(parts.longest)
    if mechanism.theta is not None:
        theta = Decimal(mechanism.theta)
    near = Decimal(mechanism.epsilon) / (alpha + theta / domain.size)
    by_value = decay(near, domain.size)
    by_partition = decay(alpha * theta * near, len(parts.starts))
    rows = []
    for x in range(domain.lower, domain.upper + 1):
        home = parts.index(x)
        between = [by_partition[abs(m - home)] for m in range(len(parts.starts))]
        whole = sum(between, Decimal(0))
        weights: list[Decimal] = []
        for m, weight in enumerate(between):
            inside = [by_value[abs(x - y)] for y in parts.members(m)]
            share = weight / whole / sum(inside, Decimal(0))
            weights += [share * w for w in inside]
        rows.append(counts_of(weights))
    return Channel(domain.values(), domain.values(), tuple(rows))
