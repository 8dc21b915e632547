"""The clamped geometric mechanism: a step costs epsilon wherever it is taken.

The geometric mechanism of Ghosh, Roughgarden and Sundararajan (STOC 2009), whose outputs beyond the
domain are moved to its ends. Global-map normalises each row by itself: its loss for one step is
only about half of its epsilon in the middle and more at the ends. Here no row is normalised, so
that loss(t) is t epsilon for every pair of values, and nothing of what is charged goes unused.
"""

from collections.abc import Sequence
from decimal import Decimal
from functools import lru_cache
from itertools import pairwise
from typing import Annotated, Literal

from pydantic import Field

from opboost_ops.domain import Domain
from opboost_ops.errors import ConfigError
from opboost_ops.mechanisms.alias import TOTAL
from opboost_ops.mechanisms.channel import FLOOR, Channel, precise
from opboost_ops.mechanisms.parameters import Parameters

#: Below this, counts are too coarse to tell neighbouring rows apart as exactly as is certified:
#: the floor gives a step 4096 (e^epsilon - 1) counts of room, and rounding takes 1 + e^epsilon.
LEAST_EPSILON = 0.001

#: Fraction bits of the power that counts are certified against.
_BITS = 200


class Geometric(Parameters):
    """y = x + two-sided geometric noise, clamped to the domain.

    With a = e^(-epsilon), Pr[y | x] is (1 - a) / (1 + a) a^|x - y| inside, and a^|x - y| / (1 + a)
    at both ends. Its loss(t) is t epsilon, up to the floor of all channels, which no loss passes
    beyond about 36.

    Attributes:
        epsilon: Loss per unit of distance, certified for the very channel that is built.
    """

    name: Literal["geometric"] = "geometric"
    epsilon: Annotated[float, Field(ge=LEAST_EPSILON, le=1000)]

    def channel(self, domain: Domain) -> Channel:
        """The exact channel on a domain; built once.

        Raises:
            ConfigError: Its counts do not keep epsilon for every step.
        """
        return _channel(self.epsilon, domain)

    def label(self) -> str:
        """What people read."""
        return f"Clamped geometric, epsilon {self.epsilon:g}"


@lru_cache(maxsize=64)
def _channel(epsilon: float, domain: Domain) -> Channel:
    last = domain.size - 1
    with precise():
        ratio = (-Decimal(epsilon)).exp()
        ends = [ratio**distance / (1 + ratio) for distance in range(domain.size)]
        inside = [(1 - ratio) * end for end in ends]
    counts = tuple(
        _apportioned([(ends if y in (0, last) else inside)[abs(x - y)] for y in range(domain.size)])
        for x in range(domain.size)
    )
    if not _certified(counts, epsilon):
        raise ConfigError(
            f"The clamped geometric channel of epsilon {epsilon:g} on {domain.size} values does "
            "not keep its own loss in whole counts.",
            "Declare a larger epsilon, or a smaller domain.",
        )
    return Channel(domain.values(), domain.values(), counts)


def _apportioned(shares: Sequence[Decimal]) -> tuple[int, ...]:
    """A row's counts, each less than one off: floors, then one more by the largest remainders.

    Where one output took the whole remainder, as in other channels, its neighbours' ratio could
    pass e^epsilon: here every ratio is as large as it may be, and the floor leaves little room.
    """
    with precise():
        spread = Decimal(TOTAL - FLOOR * len(shares))
        exact = [spread * share for share in shares]
        counts = [int(value) for value in exact]
        rest = [value - count for value, count in zip(exact, counts, strict=True)]
        missing = TOTAL - FLOOR * len(shares) - sum(counts)
        order = sorted(range(len(shares)), key=lambda y: (rest[y], shares[y]), reverse=True)
    for y in order[:missing]:
        counts[y] += 1
    return tuple(FLOOR + count for count in counts)


def _certified(counts: Sequence[Sequence[int]], epsilon: float) -> bool:
    """Whether a step costs at most epsilon, in integers.

    Steps multiply, so that loss(t) <= t epsilon follows for all t.
    """
    with precise():
        power = int(Decimal(epsilon).exp().next_minus() * (1 << _BITS))
    return all(
        max(a, b) << _BITS <= min(a, b) * power
        for row, other in pairwise(counts)
        for a, b in zip(row, other, strict=True)
    )
