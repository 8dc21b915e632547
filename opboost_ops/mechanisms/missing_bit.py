"""A randomised bit that says whether a value is missing (Warner's randomised response)."""

from decimal import Decimal
from typing import ClassVar

from opboost_ops.domain import Domain
from opboost_ops.mechanisms.bits import BIT, bit_channel
from opboost_ops.mechanisms.channel import Channel, precise
from opboost_ops.mechanisms.parameters import Epsilon, Parameters


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
            one, stay = Decimal(1), Decimal(self.epsilon).exp()
            return bit_channel([stay, one], [one, stay])

    def label(self) -> str:
        """What people read."""
        return f"Randomised missing bit, epsilon {self.epsilon:g}"
