"""Unary encoding of a category without order (Wang et al., USENIX Security 2017; RAPPOR)."""

from decimal import Decimal
from typing import Literal

from opboost_ops.domain import Domain
from opboost_ops.errors import ConfigError
from opboost_ops.mechanisms.bits import BIT, bit_channel
from opboost_ops.mechanisms.channel import Channel, precise
from opboost_ops.mechanisms.parameters import Epsilon, Parameters


class UnaryEncoding(Parameters):
    """A one-hot row whose bits are randomised one by one; only for nominal features.

    A changed category changes two bits, so what a cell costs is what both cost together:
    epsilon. The bit that is set is kept with 1/2, and one that is not with e^eps / (e^eps + 1):
    the optimised variant, which estimates frequencies with less variance than the symmetric one.

    Attributes:
        epsilon: Loss between any two categories, of the whole one-hot group.
    """

    name: Literal["unary"] = "unary"
    epsilon: Epsilon

    def require(self, domain: Domain) -> None:
        """Refuse anything but bits.

        Raises:
            ConfigError: The domain is not {0, 1}.
        """
        if domain != BIT:
            raise ConfigError(
                "Unary encoding is for nominal features alone.",
                "Declare the type as nominal, or another mechanism.",
            )

    def build(self, domain: Domain) -> Channel:
        """Build the channel on a domain."""
        self.require(domain)
        one = Decimal(1)
        with precise():
            return bit_channel([Decimal(self.epsilon).exp(), one], [one, one])

    def label(self) -> str:
        """What people read."""
        return f"Unary encoding (optimised), epsilon {self.epsilon:g} a category"
