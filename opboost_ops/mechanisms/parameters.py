"""Base classes of mechanism parameters, and partitions of a domain."""

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import lru_cache
from itertools import pairwise
from typing import Annotated, Any, Self

from pydantic import BaseModel, ConfigDict, Field, GetCoreSchemaHandler, model_validator

from opboost_ops.domain import Domain
from opboost_ops.errors import ConfigError
from opboost_ops.mechanisms.channel import Channel, precise

#: Nominal privacy loss; for distance-based mechanisms, the loss per unit of distance.
Epsilon = Annotated[float, Field(gt=0, le=1000)]


def _set_strict(schema: Any) -> None:
    if isinstance(schema, dict):
        if schema.get("type") in ("int", "float", "bool"):
            schema["strict"] = True
        for inner in schema.values():
            _set_strict(inner)
    elif isinstance(schema, list | tuple):
        for inner in schema:
            _set_strict(inner)


class Exact(BaseModel):
    """A model with strict numbers and booleans: rejects true or '3' where a number is expected.

    Pydantic's strict mode would also reject lists for tuples and strings for paths.
    """

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: GetCoreSchemaHandler) -> Any:
        """Return Pydantic's schema of the model with strict numbers and booleans."""
        schema = handler(source)
        _set_strict(schema)
        return schema


class Parameters(Exact):
    """Immutable parameters that reject unknown keys."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    def require(self, domain: Domain) -> None:
        """Check the parameters against a domain, without building the channel.

        Raises:
            ConfigError: The parameters do not fit the domain.
        """

    def channel(self, domain: Domain) -> Channel:
        """Return the exact channel on a domain, from the cache if it was built before.

        Raises:
            ConfigError: The parameters do not fit the domain.
        """
        return built(self, domain)

    def build(self, domain: Domain) -> Channel:
        """Build the channel that `channel` caches; every mechanism implements it."""
        raise NotImplementedError


@lru_cache(maxsize=128)
def built(mechanism: Parameters, domain: Domain) -> Channel:
    """Build a channel, or return it from this process's cache; 1,024 values take 60 MB."""
    return mechanism.build(domain)


def decay(epsilon: Decimal, longest: int) -> list[Decimal]:
    """Return exp(-distance epsilon / 2) for the distances 0..longest."""
    with precise():
        return [(-epsilon / 2 * distance).exp() for distance in range(longest + 1)]


@dataclass(frozen=True)
class Partitions:
    """A domain divided into intervals.

    Attributes:
        domain: The domain.
        starts: First value of every partition, ascending; the last one ends at the upper bound.
    """

    domain: Domain
    starts: tuple[int, ...]

    @classmethod
    def of_length(cls, domain: Domain, theta: int) -> "Partitions":
        """Divide a domain into partitions of equal length from L; the last one ends at R.

        Args:
            domain: The domain.
            theta: Length of a partition, in values.
        """
        return cls(domain, tuple(range(domain.lower, domain.upper + 1, theta)))

    @classmethod
    def declared(cls, domain: Domain, edges: Sequence[int]) -> "Partitions":
        """Divide a domain into partitions of declared, possibly different, lengths.

        Args:
            domain: The domain.
            edges: First value of every partition except the first, strictly increasing.

        Raises:
            ConfigError: An edge lies outside the domain, or the edges do not increase.
        """
        starts = (domain.lower, *edges)
        if any(a >= b for a, b in pairwise((*starts, domain.upper + 1))):
            raise ConfigError(
                "The edges of partitions must increase and lie inside the domain "
                f"[{domain.lower}, {domain.upper}].",
                "Give the first value of every partition except the first.",
            )
        return cls(domain, starts)

    @property
    def longest(self) -> int:
        """Number of values in the longest partition."""
        return max(b - a for a, b in pairwise((*self.starts, self.domain.upper + 1)))

    def index(self, value: int) -> int:
        """Return the index of the partition that contains a value, from 0."""
        return bisect_right(self.starts, value) - 1

    def members(self, index: int) -> range:
        """Return the values of a partition."""
        ends = (*self.starts[1:], self.domain.upper + 1)
        return range(self.starts[index], ends[index])


class PartitionedParameters(Parameters):
    """Parameters of a mechanism that uses partitions.

    Attributes:
        epsilon: Nominal loss per unit of distance.
        theta: Length of every partition, counted from L; the last one ends at R.
        edges: Alternative to theta: the first value of every partition except the first.
    """

    epsilon: Epsilon
    theta: int | None = Field(default=None, ge=1)
    edges: tuple[int, ...] | None = None

    @model_validator(mode="after")
    def _one_kind_of_partition(self) -> Self:
        if (self.theta is None) == (self.edges is None):
            raise ValueError("give either theta or edges")
        return self

    def require(self, domain: Domain) -> None:
        """Reject edges outside the domain."""
        if self.edges is not None:
            Partitions.declared(domain, self.edges)

    def partitions(self, domain: Domain) -> Partitions:
        """Divide a domain into partitions."""
        if self.theta is not None:
            return Partitions.of_length(domain, self.theta)
        return Partitions.declared(domain, self.edges or ())

    def partition_label(self) -> str:
        """Describe the partitions for display."""
        return f"theta {self.theta}" if self.edges is None else "declared partitions"
