"""Counts that keep a declared loss, and the integers that show it."""

from collections.abc import Sequence
from decimal import Decimal
from itertools import pairwise

from opboost_ops.mechanisms.alias import TOTAL
from opboost_ops.mechanisms.channel import FLOOR, precise

#: Fraction bits of the power that counts are certified against.
_BITS = 200


def apportioned(shares: Sequence[Decimal]) -> tuple[int, ...]:
    """A row's counts, each less than one off: floors, then one more by the largest remainders.

    Where one output took the whole remainder, as in other channels, its neighbours' ratio could
    pass e^epsilon: here every ratio is as large as it may be, and the floor leaves little room.

    Args:
        shares: Probabilities that sum to 1 within 10^-30.
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


def keeps_steps(counts: Sequence[Sequence[int]], epsilon: float) -> bool:
    """Whether a step costs at most epsilon, in integers.

    Steps multiply, so that loss(t) <= t epsilon follows for all t.

    Args:
        counts: A row an input, in the order of the domain.
        epsilon: Of a step.
    """
    power = _power(epsilon)
    return all(
        max(a, b) << _BITS <= min(a, b) * power
        for row, other in pairwise(counts)
        for a, b in zip(row, other, strict=True)
    )


def keeps_everywhere(counts: Sequence[Sequence[int]], most: float) -> bool:
    """Whether any two inputs are told apart by at most a loss, in integers.

    Args:
        counts: A row an input.
        most: The loss.
    """
    power = _power(most)
    columns = zip(*counts, strict=True)
    return all(max(column) << _BITS <= min(column) * power for column in columns)


def _power(loss: float) -> int:
    with precise():
        return int(Decimal(loss).exp().next_minus() * (1 << _BITS))
