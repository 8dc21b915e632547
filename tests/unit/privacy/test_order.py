"""Order metrics against enumeration by hand, other formulas, and the paper's workload."""

import itertools

import numpy as np
import pytest

from benchmarks.papers.order_measures import gamma, partition_gamma, weighted_kendall
from opboost_ops.domain import Domain
from opboost_ops.mechanisms import LocalMap, Mechanism
from tests.unit.mechanisms.test_operations import MECHANISMS

TEN = Domain(1, 10)


@pytest.mark.parametrize("mechanism", MECHANISMS, ids=lambda m: m.name)
def test_gamma_is_the_least_over_all_pairs_and_outputs(mechanism: Mechanism) -> None:
    channel = mechanism.channel(TEN)
    table, outputs = channel.probabilities(), channel.outputs
    for ties in (0.0, 0.5, 1.0):
        found = gamma(channel, ties)
        assert found.shape == (9,)
        for t in (1, 2, 5, 9):
            least = min(
                sum(
                    table[x + t, i] * table[x, j] * (1.0 if outputs[i] > outputs[j] else ties)
                    for i, j in itertools.product(range(len(outputs)), repeat=2)
                    if outputs[i] >= outputs[j]
                )
                for x in range(10 - t)
            )
            assert found[t - 1] == pytest.approx(least, abs=1e-12)


def test_partitions_far_apart_keep_their_order_under_local_map() -> None:
    mechanism = LocalMap(epsilon=0.1, theta=4)
    found = partition_gamma(mechanism.channel(TEN), mechanism.partitions(TEN))
    assert found[1] == pytest.approx(1)
    assert found[2] == pytest.approx(1)
    assert found[0] < 0.5


def by_pairs(raw: np.ndarray, released: np.ndarray) -> float:
    ranks = np.unique(raw, return_inverse=True)[1].reshape(-1)
    kept = whole = 0.0
    for i, j in itertools.combinations(range(len(raw)), 2):
        weight = abs(int(ranks[i]) - int(ranks[j]))
        whole += weight
        kept += weight * np.sign(ranks[i] - ranks[j]) * np.sign(released[i] - released[j])
    return kept / whole


@pytest.mark.parametrize("values", [3, 10, 80])
@pytest.mark.parametrize("outputs", [2, 10, 80])
def test_weighted_kendall_is_the_sum_over_all_pairs(values: int, outputs: int) -> None:
    rng = np.random.default_rng(values * outputs)
    raw = rng.integers(0, values, 80) ** 2
    released = np.round(raw / raw.max() * outputs + rng.normal(size=80) * outputs / 5)
    assert weighted_kendall(raw, released) == pytest.approx(by_pairs(raw, released), abs=1e-12)
