"""The study of what a guarantee costs: every method gives a figure, and noise costs some of it."""

import numpy as np
import pytest

from benchmarks.papers import horizontal, horizontal_private


@pytest.fixture
def table(monkeypatch):
    random = np.random.default_rng(0)
    columns = [random.integers(1, 65_537, 1500) for _ in range(3)]
    label = (columns[0] + 30_000 * random.random(1500) > 48_000).astype(int)
    monkeypatch.setattr(horizontal, "pooled", lambda _: (columns, label, np.column_stack(columns)))


@pytest.mark.parametrize(
    "method", ["exact", "alone", "noisy", pytest.param("dpboost", marks=pytest.mark.slow)]
)
def test_every_method_is_measured(table, method):
    cell = {"dataset": "made", "method": method, "parties": 3, "epsilon": 8.0, "seed": 0}
    found = horizontal_private.measure(cell)["auc"]
    assert (50 if method == "dpboost" else 80) < found < 100


def test_less_epsilon_is_more_noise(table):
    cell = {"dataset": "made", "method": "noisy", "parties": 3, "seed": 0}
    found = [
        np.mean([horizontal_private.measure({**cell, "epsilon": e})["auc"] for _ in range(5)])
        for e in (0.03, 50.0)
    ]
    assert found[0] + 5 < found[1]
