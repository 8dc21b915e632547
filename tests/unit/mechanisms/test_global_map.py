"""Global-map's channel against its closed form, in a precision of its own."""

from decimal import Decimal
from fractions import Fraction

import pytest
from pydantic import ValidationError

from opboost_ops.domain import Domain
from opboost_ops.mechanisms.channel import FLOOR, Channel, counts_of
from opboost_ops.mechanisms.global_map import GlobalMap

TOTAL = 2**64
EPSILONS = [0.01, 0.08, 0.64, 1.0, 2.56, 5.12, 30.0]


def test_the_largest_epsilon_keeps_the_floor() -> None:
    for size in (2, 64, 200):
        for row in GlobalMap(epsilon=1000.0).channel(Domain(1, size)).counts:
            assert sum(row) == TOTAL
            assert min(row) >= FLOOR


def test_two_values_by_hand() -> None:
    """On two values, Pr[stay] = 1 / (1 + e^(-epsilon / 2)) but for the floor."""
    (stay, go), _ = GlobalMap(epsilon=1.0).channel(Domain(1, 2)).counts
    assert Fraction(stay, TOTAL) == pytest.approx(0.6224593312018546, abs=1e-15)
    assert stay + go == TOTAL


def test_the_law_is_symmetric_and_prefers_the_truth() -> None:
    counts = GlobalMap(epsilon=0.7).channel(Domain(1, 9)).counts
    for x, row in enumerate(counts):
        assert row == tuple(reversed(counts[-1 - x]))
        assert max(range(9), key=lambda y: row[y]) == x
        assert list(row[: x + 1]) == sorted(row[: x + 1])
        assert list(row[x:]) == sorted(row[x:], reverse=True)


@pytest.mark.parametrize("epsilon", [0, -1, 1001, float("nan"), float("inf")])
def test_epsilon_must_be_positive_and_finite(epsilon: float) -> None:
    with pytest.raises(ValidationError):
        GlobalMap(epsilon=epsilon)


def test_a_weight_of_zero_is_outside_the_support() -> None:
    counts = counts_of([Decimal(3), Decimal(0), Decimal(1)])
    assert counts[1] == 0
    assert sum(counts) == TOTAL
    assert counts[2] == FLOOR + round(Fraction(TOTAL - 2 * FLOOR, 4))


def test_a_channel_that_does_not_sum_is_refused() -> None:
    values = Domain(1, 2).values()
    with pytest.raises(ValueError, match="sums to"):
        Channel(values, values, ((TOTAL - 1, 0), (0, TOTAL)))
    with pytest.raises(ValueError, match="sums to"):
        Channel(values, values, ((TOTAL + 1, -1), (0, TOTAL)))
