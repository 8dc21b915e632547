"""The base of every mechanism's parameters, and partitions of a domain."""

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

#: Nominal privacy loss; of distance-based mechanisms a loss per unit of distance.
Epsilon = Annotated[float, Field(gt=0, le=1000)]


def _make_exact(schema: Any) -> None:
    if isinstance(schema, dict):
        if schema.get("type") in ("int", "float", "bool"):
            schema["strict"] = True
        for inner in schema.values():
            _make_exact(inner)
    elif isinstance(schema, list | tuple):
        for inner in schema:
            _make_exact(inner)


class Exact(BaseModel):
    """A model whose numbers are numbers: neither true nor the text '3' is taken for one.

    Pydantic's own strict mode would refuse lists for tuples and texts for paths, too.
    """

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: GetCoreSchemaHandler) -> Any:
        """Pydantic's schema of the model, with numbers and truth values taken strictly."""
        schema = handler(source)
        _make_exact(schema)
        return schema


class Parameters(Exact):
    """Frozen parameters that refuse keys they do not know."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    def require(self, domain: Domain) -> None:
        """Refuse a domain on which the parameters make no sense; builds nothing.

        Raises:
            ConfigError: Saying why.
        """

    def channel(self, domain: Domain) -> Channel:
        """The exact channel on a domain; built once.

        Raises:
            ConfigError: The parameters make none on this domain.
        """
        return built(self, domain)

    def build(self, domain: Domain) -> Channel:
        """Build the channel that `channel` caches; each mechanism has its own."""
        raise NotImplementedError


@lru_cache(maxsize=128)
def built(mechanism: Parameters, domain: Domain) -> Channel:
    """The channels of this process: one over 1,024 values holds 60 MB."""
    return mechanism.build(domain)


def decay(epsilon: Decimal, longest: int) -> list[Decimal]:
    """exp(-distance epsilon / 2) for the distances 0..longest."""
    with precise():
        return [(-epsilon / 2 * distance).exp() for distance in range(longest + 1)]


@dataclass(frozen=True)
class Partitions:
    """The first value of every partition, rising; the last partition ends at the upper bound."""

    domain: Domain
    starts: tuple[int, ...]

    @classmethod
    def of_length(cls, domain: Domain, theta: int) -> "Partitions":
        """Partitions of equal length, anchored at L; the last one is cut at R.

        Args:
            domain: The domain.
            theta: Their length in values.
        """
        return cls(domain, tuple(range(domain.lower, domain.upper + 1, theta)))

    @classmethod
    def declared(cls, domain: Domain, edges: Sequence[int]) -> "Partitions":
        """Uneven partitions.

        Args:
            domain: The domain.
            edges: First value of every partition but the first, strictly increasing.

        Raises:
            ConfigError: An edge lies outside the domain, or they do not rise.
        """
        starts = (domain.lower, *edges)
        if any(a >= b for a, b in pairwise((*starts, domain.upper + 1))):
            raise ConfigError(
                "The partitions' edges must rise and lie inside the domain "
                f"[{domain.lower}, {domain.upper}].",
                "Give the first value of every partition but the first.",
            )
        return cls(domain, starts)

    @property
    def longest(self) -> int:
        """Values in the longest partition."""
        return max(b - a for a, b in pairwise((*self.starts, self.domain.upper + 1)))

    def index(self, value: int) -> int:
        """Which partition a value is in, from 0."""
        return bisect_right(self.starts, value) - 1

    def members(self, index: int) -> range:
        """The values of a partition."""
        ends = (*self.starts[1:], self.domain.upper + 1)
        return range(self.starts[index], ends[index])


class PartitionedParameters(Parameters):
    """Parameters of a mechanism that knows partitions.

    Attributes:
        epsilon: Nominal loss per unit of distance.
        theta: Length of a partition, anchored at L, the last one cut at R.
        edges: Uneven partitions instead: the first value of every partition but the first.
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
        """Refuse edges outside the domain."""
        if self.edges is not None:
            Partitions.declared(domain, self.edges)

    def partitions(self, domain: Domain) -> Partitions:
        """The partitions of a domain."""
        if self.theta is not None:
            return Partitions.of_length(domain, self.theta)
        return Partitions.declared(domain, self.edges or ())

    def partition_label(self) -> str:
        """The partitions, for people to read."""
        return f"theta {self.theta}" if self.edges is None else "declared partitions"
