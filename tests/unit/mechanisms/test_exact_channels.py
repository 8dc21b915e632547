"""Every mechanism's table, on the very integers that are sampled, against exact closed forms."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from pydantic import ValidationError

from opboost_ops.domain import Domain
from opboost_ops.errors import ConfigError
from opboost_ops.mechanisms import (
    AdjMap,
    BucketResponse,
    GeneralisedResponse,
    GlobalMap,
    LocalMap,
    Mechanism,
    Piecewise,
)
from opboost_ops.mechanisms.alias import TOTAL
from opboost_ops.mechanisms.partitions import Partitions
from opboost_ops.privacy.loss import loss_curve, worst_ratios

EPSILONS = (0.01, 0.1, 1.0, 10.0)
SIZES = (*range(2, 18), 31, 32, 33, 64, 65, 100)


def variants(size: int, epsilon: float) -> list[Mechanism]:
    thetas = sorted({1, 2, 3, size // 2 or 1, size})
    found: list[Mechanism] = [
        GlobalMap(epsilon=epsilon),
        GeneralisedResponse(epsilon=epsilon),
        Piecewise(epsilon=epsilon),
    ]
    found += [BucketResponse(epsilon=epsilon, buckets=q) for q in {2, min(5, size), size}]
    found += [LocalMap(epsilon=epsilon, theta=theta) for theta in thetas]
    found += [
        AdjMap(epsilon=epsilon, theta=theta, alpha=alpha)
        for theta, alpha in itertools.product(thetas, (0.4, 1.0, 10.0))
    ]
    return found


@pytest.mark.parametrize("size", SIZES)
def test_the_table_that_is_sampled_is_the_channel(size: int) -> None:
    domain = Domain(-3, size - 4)
    # All parameters on small domains; on large ones, where one table has 10,000 cells, the ends.
    for epsilon in EPSILONS if size < 20 else (EPSILONS[0], EPSILONS[-1]):
        for mechanism in variants(size, epsilon):
            channel = mechanism.channel(domain)
            rebuilt = channel.alias.rebuilt_counts()
            width = len(channel.outputs)
            assert [tuple(row[:width]) for row in rebuilt] == list(channel.counts), mechanism
            assert all(sum(row[width:]) == 0 for row in rebuilt)
            assert all(sum(row) == TOTAL for row in channel.counts)
            assert channel.outputs.min() >= domain.lower
            assert channel.outputs.max() <= domain.upper
            if mechanism.name != "local_map":
                assert min(map(min, channel.counts)) > 0, mechanism


@pytest.mark.parametrize("epsilon", EPSILONS)
@pytest.mark.parametrize("size", [2, 5, 10, 33])
def test_response_has_its_closed_form(size: int, epsilon: float) -> None:
    domain = Domain(1, size)
    for mechanism in (
        GeneralisedResponse(epsilon=epsilon),
        BucketResponse(epsilon=epsilon, buckets=min(size, 4)),
    ):
        channel = mechanism.channel(domain)
        q = len(channel.outputs)
        stay = Fraction(math.e**epsilon) / (Fraction(math.e**epsilon) + q - 1)
        for row in channel.counts:
            assert abs(Fraction(max(row), TOTAL) - stay) < Fraction(1, 10**11)
            others = sorted(row)[:-1]
            # The others are the q - 1 other buckets, all alike: one of all q would be a bug.
            assert max(others) - min(others) <= 1
        (worst, *_) = set(worst_ratios(channel.counts)[-1:])
        assert worst is not None
        assert math.log(worst) <= epsilon
        assert math.log(worst) == pytest.approx(epsilon, rel=1e-6)


def test_bucket_is_that_of_the_value() -> None:
    channel = BucketResponse(epsilon=10, buckets=3).channel(Domain(1, 10))
    likeliest = channel.outputs[np.argmax(channel.probabilities(), axis=1)]
    assert likeliest.tolist() == [2, 2, 2, 2, 6, 6, 6, 9, 9, 9]


@pytest.mark.parametrize("epsilon", EPSILONS)
@pytest.mark.parametrize("size", [2, 3, 10, 33, 100])
def test_piecewise_never_costs_more_than_epsilon(size: int, epsilon: float) -> None:
    curve = loss_curve(Piecewise(epsilon=epsilon), Domain(1, size))
    assert all(loss <= epsilon * (1 + 1e-12) for loss in curve.loss if loss != "inf")
    assert "inf" not in curve.loss


@pytest.mark.parametrize("epsilon", EPSILONS)
@pytest.mark.parametrize("theta", [1, 2, 3, 4, 10])
def test_local_map_stays_in_its_partition(theta: int, epsilon: float) -> None:
    domain = Domain(1, 10)
    channel = LocalMap(epsilon=epsilon, theta=theta).channel(domain)
    for (i, row), (j, other) in itertools.combinations(enumerate(channel.counts), 2):
        if i // theta != j // theta:
            assert all(not (a and b) for a, b in zip(row, other, strict=True))
            continue
        ratios = [Fraction(a, b) for a, b in zip(row, other, strict=True) if a or b]
        assert math.log(max(*ratios, *(1 / r for r in ratios))) <= abs(i - j) * epsilon


@pytest.mark.parametrize(
    ("theta", "alpha", "loss"), [(2, 1.0, 1.040), (4, 1.0, 1.560), (4, 10.0, 2.025)]
)
def test_adj_map_breaks_its_nominal_bound(theta: int, alpha: float, loss: float) -> None:
    curve = loss_curve(AdjMap(epsilon=1, theta=theta, alpha=alpha), Domain(1, 10))
    assert curve.loss[0] == pytest.approx(loss, abs=5e-4)
    assert not curve.certificate


@pytest.mark.parametrize("epsilon", [0.08, 1.0])
def test_adj_map_against_its_definition(epsilon: float) -> None:
    domain, theta, alpha = Domain(1, 10), 4, 2.0
    channel = AdjMap(epsilon=epsilon, theta=theta, alpha=alpha).channel(domain)
    near = epsilon / (alpha + theta / domain.size)
    parts = [(1, 2, 3, 4), (5, 6, 7, 8), (9, 10)]
    for x, row in zip(range(1, 11), channel.probabilities(), strict=True):
        home = (x - 1) // theta
        between = [math.exp(-abs(m - home) * alpha * theta * near / 2) for m in range(3)]
        for m, part in enumerate(parts):
            inside = [math.exp(-abs(x - y) * near / 2) for y in part]
            for y, weight in zip(part, inside, strict=True):
                expected = between[m] / sum(between) * weight / sum(inside)
                assert row[y - 1] == pytest.approx(expected, rel=1e-12)


def test_one_partition_or_partitions_of_one_are_global_map() -> None:
    domain = Domain(1, 7)
    whole = LocalMap(epsilon=0.5, theta=7).channel(domain)
    assert whole.counts == GlobalMap(epsilon=0.5).channel(domain).counts


def test_no_probability_rounds_to_zero() -> None:
    channel = GlobalMap(epsilon=0.1).channel(Domain(1, 1000))
    assert min(min(row) for row in channel.counts) >= 4096


def test_uneven_partitions() -> None:
    domain = Domain(1, 10)
    assert Partitions.declared(domain, (3, 9)).members(1) == range(3, 9)
    channel = LocalMap(epsilon=1, edges=(3, 9)).channel(domain)
    assert [sum(c > 0 for c in row) for row in channel.counts] == [2, 2, 6, 6, 6, 6, 6, 6, 2, 2]
    for edges in ((1, 5), (5, 5), (5, 11)):
        with pytest.raises(ConfigError, match="edges must rise"):
            LocalMap(epsilon=1, edges=edges).channel(domain)


def test_partitions_are_given_once() -> None:
    for kind in (AdjMap, LocalMap):
        with pytest.raises(ValidationError, match="either theta or edges"):
            kind(epsilon=1)
        with pytest.raises(ValidationError, match="either theta or edges"):
            kind(epsilon=1, theta=2, edges=(3,))


def test_more_buckets_than_values() -> None:
    with pytest.raises(ConfigError, match="more than the domain's"):
        BucketResponse(epsilon=1, buckets=11).channel(Domain(1, 10))
