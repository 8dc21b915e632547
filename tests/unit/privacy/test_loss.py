"""The loss curve, from the counts that are sampled, in exact arithmetic."""

import math
from fractions import Fraction

import pytest

from opboost_ops.domain import Domain
from opboost_ops.mechanisms import BucketResponse
from opboost_ops.mechanisms.global_map import GlobalMap
from opboost_ops.privacy.loss import loss_curve
from opboost_ops.privacy.ratios import worst_ratios

EPSILONS = [0.01, 0.08, 0.64, 1.0, 2.56, 5.12, 40.0]


def brute_force(counts: tuple[tuple[int, ...], ...], t: int) -> Fraction:
    """The definition itself."""
    inputs = range(len(counts))
    return max(
        Fraction(counts[x][y], counts[z][y])
        for x in inputs
        for z in inputs
        for y in range(len(counts[0]))
        if abs(x - z) <= t
    )


def test_inputs_of_one_bucket_are_compared_once_and_rightly() -> None:
    """Neighbours are in one bucket first, and equal rows come back on the other side of it."""
    counts = BucketResponse(epsilon=1, edges=(4, 5)).channel(Domain(1, 9)).counts
    assert worst_ratios(counts) == [brute_force(counts, t) for t in range(1, 9)]
    again = (*counts[:3], *counts[5:], *counts[:2], counts[3])
    assert worst_ratios(again) == [brute_force(again, t) for t in range(1, len(again))]
    whole = worst_ratios(BucketResponse(epsilon=1).channel(Domain(1, 1024)).counts)
    assert len(whole) == 1023
    assert len(set(whole)) == 1


def test_the_curve_is_never_below_the_truth() -> None:
    for epsilon in EPSILONS:
        mechanism, domain = GlobalMap(epsilon=epsilon), Domain(1, 10)
        counts = mechanism.channel(domain).counts
        for t, loss in enumerate(loss_curve(mechanism, domain).loss, 1):
            truth = brute_force(counts, t)
            assert float(loss) == pytest.approx(math.log(truth), rel=1e-12, abs=1e-15)
            # exp of the stated loss, in rational arithmetic from below, must reach the ratio.
            assert _exp_up(Fraction(float(loss))) >= truth


def _exp_up(x: Fraction) -> Fraction:
    """A rational just above e^x, by its series with the rest bounded."""
    n = 1
    while x / n > 1:
        n += 1
    y, total, term = x / n, Fraction(1), Fraction(1)
    for k in range(1, 30):
        term = Fraction(math.ceil(term * y / k * 2**160), 2**160)
        total += term
    return (total + term) ** n


def test_a_curve_that_breaks_its_epsilon_is_not_certified() -> None:
    class Lying(GlobalMap):
        def channel(self, domain: Domain):  # type: ignore[no-untyped-def]
            return GlobalMap(epsilon=4.0).channel(domain)

    assert loss_curve(Lying(epsilon=1.0), Domain(1, 10)).certificate is False


@pytest.mark.parametrize("epsilon", EPSILONS)
@pytest.mark.parametrize("domain", [Domain(1, 2), Domain(1, 10), Domain(-8, 40)])
def test_global_map_keeps_t_epsilon(domain: Domain, epsilon: float) -> None:
    curve = loss_curve(GlobalMap(epsilon=epsilon), domain)
    assert curve.certificate is True
    assert len(curve.loss) == domain.size - 1
    assert all(loss <= t * epsilon for t, loss in enumerate(curve.loss, 1))
    assert list(curve.loss) == sorted(curve.loss)
