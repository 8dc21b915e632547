"""The loss curve, from the counts that are sampled, in exact arithmetic."""

import math
from fractions import Fraction

import pytest

from opboost_ops.config.feature import Edges
from opboost_ops.domain import Domain
from opboost_ops.mechanisms import private_quantiles
from opboost_ops.mechanisms.maps import GlobalMap, LocalMap
from opboost_ops.privacy.edge_charges import edges_loss
from opboost_ops.privacy.loss import loss_curve

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


def test_the_curve_is_never_below_the_truth() -> None:
    for epsilon in EPSILONS:
        mechanism, domain = GlobalMap(epsilon=epsilon), Domain(1, 10)
        counts, curve = mechanism.channel(domain).counts, loss_curve(mechanism, domain)
        assert curve.certificate is True
        for t, loss in enumerate(curve.loss, 1):
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


def test_a_curve_without_bound_is_not_certified() -> None:
    curve = loss_curve(LocalMap(epsilon=4.0, theta=3), Domain(1, 10))
    assert curve.loss[-1] == "inf"
    assert curve.certificate is False


@pytest.mark.parametrize("count", [1, 4, 9])
def test_drawn_edges_cost_the_loss_of_all_their_cells(count: int) -> None:
    """There is one cell more than edges."""
    edges = Edges(edges=tuple(range(count)), epsilon=1.0)
    curve = edges_loss(edges, Domain(1, 10))
    assert set(curve.loss) == {private_quantiles.loss(count + 1, 1.0)}
    assert len(curve.loss) == 9
