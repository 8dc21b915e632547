"""Mechanisms on single bits: a missing value's bit, and unary encoding of a category."""

from collections.abc import Sequence
from decimal import Decimal
from typing import ClassVar, Literal

from opboost_ops.domain import Domain
from opboost_ops.errors import ConfigError
from opboost_ops.mechanisms.channel import Channel, counts_of, precise
from opboost_ops.mechanisms.parameters import Epsilon, Parameters

#: The domain of a bit.
BIT = Domain(0, 1)


def bit_channel(clear: Sequence[Decimal], set_: Sequence[Decimal]) -> Channel:
    """The channel of a bit.

    Args:
        clear: Weights of the outputs 0 and 1 where the bit is 0.
        set_: The same where it is 1.
    """
    return Channel(BIT.values(), BIT.values(), (counts_of(clear), counts_of(set_)))


class MissingBit(Parameters):
    """The bit stays with e^eps / (e^eps + 1).

    It is a column beside the feature's own; a value that appears or vanishes costs this epsilon and
    the feature's loss(R - L).

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
        """Name and parameters, for people to read."""
        return f"Randomised missing bit, epsilon {self.epsilon:g}"


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
        unit = Decimal(1)
        with precise():
            return bit_channel([Decimal(self.epsilon).exp(), unit], [unit, unit])

    def label(self) -> str:
        """Name and parameters, for people to read."""
        return f"Unary encoding (optimised), epsilon {self.epsilon:g} a category"
