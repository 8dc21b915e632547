"""What mechanisms on single bits have in common: a 2 x 2 channel on {0, 1}."""

from collections.abc import Sequence
from decimal import Decimal

from opboost_ops.domain import Domain
from opboost_ops.mechanisms.channel import Channel, counts_of

#: The domain of a bit.
BIT = Domain(0, 1)


def bit_channel(clear: Sequence[Decimal], set_: Sequence[Decimal]) -> Channel:
    """The channel of a bit.

    Args:
        clear: Weights of the outputs 0 and 1 where the bit is 0.
        set_: The same where it is 1.
    """
    return Channel(BIT.values(), BIT.values(), (counts_of(clear), counts_of(set_)))
