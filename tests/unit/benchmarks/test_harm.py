"""Where an estimator does harm."""

import numpy as np
import pytest

from benchmarks.papers.harm import harm, holm


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
