"""Randomised response over the domain, and over buckets of it (FederBoost, Protocol 2)."""

from decimal import Decimal
from functools import lru_cache
from typing import Literal

import numpy as np
from pydantic import Field

from opboost_ops.domain import Domain
from opboost_ops.errors import ConfigError
from opboost_ops.mechanisms.channel import Channel, counts_of, precise
from opboost_ops.mechanisms.parameters import Epsilon, Parameters


class GeneralisedResponse(Parameters):
    """Stay with e^eps / (e^eps + |D| - 1), else uniformly one of the other values.

    Attributes:
        epsilon: Loss between any two values.
    """

    name: Literal["grr"] = "grr"
    epsilon: Epsilon

    def channel(self, domain: Domain) -> Channel:
        """The exact channel on a domain; built once."""
        return _channel(self.epsilon, domain, domain.size)

    def label(self) -> str:
        """What people read."""
        return f"Generalised randomised response, epsilon {self.epsilon:g}"


class BucketResponse(Parameters):
    """Stay in the bucket with e^eps / (e^eps + q - 1), else uniformly one of the other q - 1.

    A bucket is released as its middle value. Buckets are equal parts of the declared domain,
    never read off the data.

    Attributes:
        epsilon: Loss between any two values.
        buckets: Their number q.
    """

    name: Literal["bucket_response"] = "bucket_response"
    epsilon: Epsilon
    buckets: int = Field(default=16, ge=2)

    def require(self, domain: Domain) -> None:
        """Refuse more buckets than values."""
        if self.buckets > domain.size:
            raise ConfigError(
                f"{self.buckets} buckets are more than the domain's {domain.size} values.",
                "Declare fewer buckets, or a larger domain.",
            )

    def channel(self, domain: Domain) -> Channel:
        """The exact channel on a domain, |D| x q; built once.

        Raises:
            ConfigError: There are more buckets than values.
        """
        self.require(domain)
        return _channel(self.epsilon, domain, self.buckets)

    def label(self) -> str:
        """What people read."""
        return f"Bucketed randomised response, epsilon {self.epsilon:g}, {self.buckets} buckets"


@lru_cache(maxsize=64)
def _channel(epsilon: float, domain: Domain, buckets: int) -> Channel:
    with precise():
        stay = Decimal(epsilon).exp()
    home = (domain.values() - domain.lower) * buckets // domain.size
    middles = [np.median(domain.values()[home == b]) for b in range(buckets)]
    rows = [
        counts_of([stay if b == own else Decimal(1) for b in range(buckets)])
        for own in range(buckets)
    ]
    outputs = np.floor(middles).astype(np.int64)
    return Channel(domain.values(), outputs, tuple(rows[own] for own in home))
