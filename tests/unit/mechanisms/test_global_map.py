"""Global-map's channel against its closed form, in a precision of its own."""

from fractions import Fraction

import pytest

from opboost_ops.domain import Domain
from opboost_ops.mechanisms.channel import FLOOR
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
