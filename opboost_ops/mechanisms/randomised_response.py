"""Randomised response over domain values, buckets (FederBoost, Protocol 2) and single bits."""

from collections.abc import Sequence
from decimal import Decimal
from itertools import pairwise
from typing import ClassVar, Literal, Self

import numpy as np
from pydantic import Field, model_validator

from opboost_ops.domain import Domain
from opboost_ops.errors import ConfigError
from opboost_ops.mechanisms.channel import Channel, counts_of, precise
from opboost_ops.mechanisms.parameters import Epsilon, Parameters, Partitions

#: The domain of a bit.
BIT = Domain(0, 1)

#: Default number of buckets, as in the paper.
BUCKETS = 16


def bit_channel(clear: Sequence[Decimal], set_: Sequence[Decimal]) -> Channel:
    """Build the channel of a bit.

    Args:
        clear: Weights of the outputs 0 and 1 if the bit is 0.
        set_: Weights of the outputs 0 and 1 if the bit is 1.
    """
    return Channel(BIT.values(), BIT.values(), (counts_of(clear), counts_of(set_)))


class MissingBit(Parameters):
    """Randomised response for missing values: reports the bit with e^eps / (e^eps + 1).

    The bit is released as a separate column. A value that appears or disappears costs this epsilon
    plus the feature's loss(R - L).

    Attributes:
        epsilon: Loss between missing and present.
    """

    name: ClassVar[str] = "missing_bit"
    epsilon: Epsilon

    def build(self, domain: Domain) -> Channel:
        """Build the channel on a domain."""
        assert domain == BIT
        with precise():
            unit, stay = Decimal(1), Decimal(self.epsilon).exp()
            return bit_channel([stay, unit], [unit, stay])

    def label(self) -> str:
        """Return the name and parameters for display."""
        return f"Randomised missing bit, epsilon {self.epsilon:g}"


class UnaryEncoding(Parameters):
    """Optimised unary encoding for nominal features: randomises each bit of a one-hot row.

    A changed category changes two bits, whose losses add up to epsilon. A set bit is reported with
    probability 1/2, and a cleared bit with e^eps / (e^eps + 1): this optimised variant estimates
    frequencies with less variance than the symmetric variant.

    Attributes:
        epsilon: Loss between any two categories, for the whole one-hot row.
    """

    name: Literal["unary"] = "unary"
    epsilon: Epsilon

    def require(self, domain: Domain) -> None:
        """Reject any domain other than {0, 1}.

        Raises:
            ConfigError: The domain is not {0, 1}.
        """
        if domain != BIT:
            raise ConfigError(
                "Unary encoding is only for nominal features.",
                "Declare the feature as nominal, or use another mechanism.",
            )

    def build(self, domain: Domain) -> Channel:
        """Build the channel on a domain."""
        self.require(domain)
        unit = Decimal(1)
        with precise():
            return bit_channel([Decimal(self.epsilon).exp(), unit], [unit, unit])

    def label(self) -> str:
        """Return the name and parameters for display."""
        return f"Unary encoding (optimised), epsilon {self.epsilon:g} per category"


class GeneralisedResponse(Parameters):
    """Report x with e^eps / (e^eps + |D| - 1), else uniformly one of the other values.

    Attributes:
        epsilon: Loss between any two values.
    """

    name: Literal["grr"] = "grr"
    epsilon: Epsilon

    def build(self, domain: Domain) -> Channel:
        """Build the channel on a domain."""
        return _channel(self.epsilon, domain, tuple(range(domain.lower, domain.upper + 1)))

    def label(self) -> str:
        """Return the name and parameters for display."""
        return f"Generalised randomised response, epsilon {self.epsilon:g}"


class BucketResponse(Parameters):
    """Report the bucket of x with e^eps / (e^eps + q - 1), else uniformly another of the q buckets.

    A bucket is released as its middle value. The q buckets are equal parts of the declared domain,
    or are given by declared edges. The loss is per cell and holds only if the edges do not depend
    on the table.

    Attributes:
        epsilon: Loss between any two values.
        buckets: Number q of equal buckets; default: 16.
        edges: Alternative to buckets: first domain value of each bucket except the first.
    """

    name: Literal["bucket_response"] = "bucket_response"
    epsilon: Epsilon
    buckets: int | None = Field(default=None, ge=2)
    edges: tuple[int, ...] | None = Field(default=None, min_length=1)

    @model_validator(mode="after")
    def _one_kind_of_bucket(self) -> Self:
        if self.buckets is not None and self.edges is not None:
            raise ValueError("give either buckets or edges")
        if any(a >= b for a, b in pairwise(self.edges or ())):
            raise ValueError("the edges of buckets must increase")
        return self

    @property
    def count(self) -> int:
        """Number of buckets, q."""
        return (self.buckets or BUCKETS) if self.edges is None else len(self.edges) + 1

    def require(self, domain: Domain) -> None:
        """Reject more buckets than values, and edges outside the domain."""
        if self.count > domain.size:
            raise ConfigError(
                f"{self.count} buckets exceed the {domain.size} values of the domain.",
                "Declare fewer buckets, or a larger domain.",
            )
        if self.edges is not None and not (
            domain.lower < self.edges[0] and self.edges[-1] <= domain.upper
        ):
            raise ConfigError(
                f"The edges of buckets must lie inside the feature's domain [{domain.lower}, "
                f"{domain.upper}] and above its first value.",
                "Give the first domain value of each bucket except the first.",
            )

    def build(self, domain: Domain) -> Channel:
        """Build the channel on a domain."""
        self.require(domain)
        if self.edges is not None:
            return _channel(self.epsilon, domain, (domain.lower, *self.edges))
        # The value x lies in bucket floor((x - L) q / |D|).
        starts = (domain.lower - (-b * domain.size // self.count) for b in range(self.count))
        return _channel(self.epsilon, domain, tuple(starts))

    def label(self) -> str:
        """Return the name and parameters for display."""
        uneven = "" if self.edges is None else " between edges"
        return (
            f"Bucketed randomised response, epsilon {self.epsilon:g}, {self.count} buckets{uneven}"
        )


def _channel(epsilon: float, domain: Domain, starts: tuple[int, ...]) -> Channel:
    with precise():
        stay = Decimal(epsilon).exp()
    parts, buckets = Partitions(domain, starts), len(starts)
    members = [parts.members(b) for b in range(buckets)]
    rows = [
        counts_of([stay if b == own else Decimal(1) for b in range(buckets)])
        for own in range(buckets)
    ]
    return Channel(
        domain.values(),
        np.array([values[(len(values) - 1) // 2] for values in members], dtype=np.int64),
        tuple(row for row, values in zip(rows, members, strict=True) for _ in values),
        np.array([(values[0], values[-1]) for values in members], dtype=np.int64),
    )
