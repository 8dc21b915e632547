"""Curves: Skellam's against its law, sums of them, and what they are worth as epsilon."""

import math

import numpy as np
import pytest
from scipy.stats import skellam as law

from opboost_ops.privacy.ledger import renyi
from opboost_ops.privacy.ledger.renyi import ORDERS


def divergence(shift: int, variance: float, alpha: int) -> float:
    """Renyi divergence of Skellam noise from itself moved by a shift, from its probabilities."""
    reach = int(12 * math.sqrt(variance)) + 30 * alpha * abs(shift)
    at = np.arange(-reach, reach + 1)
    half = variance / 2
    p, q = law.logpmf(at, half, half), law.logpmf(at - shift, half, half)
    known = np.isfinite(p) & np.isfinite(q)
    terms = alpha * p[known] - (alpha - 1) * q[known]
    top = terms.max()
    return float(top + np.log(np.exp(terms - top).sum())) / (alpha - 1)


@pytest.mark.parametrize("variance", [4.0, 40.0, 900.0])
@pytest.mark.parametrize("shift", [1, 3])
def test_the_bound_on_skellam_holds_and_is_near(variance: float, shift: int) -> None:
    bound = dict(zip(ORDERS, renyi.skellam(shift, shift**2, variance), strict=True))
    for alpha in (2, 3, 8, 16):
        if alpha * shift > variance:
            continue
        found = divergence(shift, variance, alpha)
        assert found <= bound[alpha]
        # No shift is told at less than what Gaussian noise of the variance would cost.
        assert found > 0.9 * alpha * shift**2 / (2 * variance)
    if variance == 900.0:
        assert bound[8] < 1.02 * divergence(shift, variance, 8)


def test_coordinates_add_up_to_no_more_than_the_bound() -> None:
    shifts, variance = (3, -2, 1, 1), 60.0
    l1, l2 = sum(map(abs, shifts)), sum(s**2 for s in shifts)
    bound = dict(zip(ORDERS, renyi.skellam(l1, l2, variance), strict=True))
    for alpha in (2, 5, 12):
        assert sum(divergence(s, variance, alpha) for s in shifts) <= bound[alpha]


def test_at_high_orders_the_bound_is_the_published_one() -> None:
    l1, l2_squared, variance = 2.0, 4.0, 10.0
    published = ORDERS[-1] * l2_squared / (2 * variance) + 3 * l1 / (2 * variance)
    assert renyi.skellam(l1, l2_squared, variance)[-1] == pytest.approx(published, rel=1e-9)


@pytest.mark.parametrize(
    ("rate", "epsilon"),
    # dp_accounting 0.6.0, compute_epsilon at the same orders and delta 1e-6.
    [
        (0.01, 0.6216971849738024),
        (0.1, 2.143043523753668),
        (1.0, 7.828374610068334),
        (5.0, 20.95298402653992),
    ],
)
def test_epsilon_of_a_curve_is_dp_accountings(rate: float, epsilon: float) -> None:
    found = renyi.epsilon_of([rate * alpha for alpha in ORDERS], 1e-6)
    assert found == pytest.approx(epsilon, rel=1e-9)
    assert found >= epsilon
