"""Where an estimator does harm."""

import numpy as np
import pytest
from scipy import stats

from benchmarks.papers.harm import half_width, harm, holm


def test_harm_is_the_one_sided_paired_test() -> None:
    rng = np.random.default_rng(0)
    one, other = rng.normal(size=5), rng.normal(0.5, size=5)
    expected = stats.ttest_rel(one, other, alternative="less").pvalue
    assert harm((one - other).tolist()) == pytest.approx(expected)


def test_half_a_width_is_the_interval_s() -> None:
    gains = [0.1, 0.3, 0.2, 0.25]
    low, high = stats.ttest_1samp(gains, 0).confidence_interval(0.95)
    assert half_width(gains) == pytest.approx((high - low) / 2)
    assert half_width([0.1]) is None


@pytest.mark.parametrize(("gains", "value"), [([-1.0], 1.0), ([0.0] * 3, 1.0), ([-1.0] * 3, 0.0)])
def test_without_a_spread_the_sign_decides(gains: list[float], value: float) -> None:
    assert harm(gains) == value


def test_holm_stops_at_the_first_that_stands() -> None:
    # 0.01 <= 0.05 / 4; 0.02 > 0.05 / 3, so 0.03 stands, too.
    assert holm([0.03, 0.01, 0.02, 0.9]) == [False, True, False, False]
    assert holm([0.04, 0.012, 0.9, 0.013]) == [False, True, False, True]
    assert holm([]) == []


def test_holm_names_by_chance_no_more_often_than_it_says() -> None:
    rng = np.random.default_rng(1)
    named = sum(any(holm(rng.uniform(size=20).tolist())) for _ in range(2000))
    assert 60 <= named <= 140
