"""Thresholds by cost; intervals that hold as often as they say."""

import numpy as np
import pytest

from opboost_ops.learning import metrics
from opboost_ops.learning.distribution import base_rates, curves
from opboost_ops.learning.metrics import evaluate


def scored(rows: int = 1000, seed: int = 4) -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(seed)
    score = random.random(rows)
    return (random.random(rows) < score**2).astype(float), score


def test_a_threshold_by_cost_has_the_least_cost() -> None:
    label, _ = scored(20_000)
    random = np.random.default_rng(0)
    truth = random.random(20_000)
    label = (random.random(20_000) < truth).astype(float)
    chosen = metrics.threshold(4)
    assert chosen == 0.2

    def cost(value: float) -> float:
        found = metrics.confusion(label, truth, value)
        return 4 * found["false_negative"] + found["false_positive"]

    assert cost(chosen) < min(cost(0.1), cost(0.3), cost(0.5))


def test_intervals_of_ninety_per_cent_hold_ninety_of_a_hundred() -> None:
    """Mean coverage of 20 splits, of a model that is wrong and of noise that is skewed."""
    covered = []
    for seed in range(20):
        random = np.random.default_rng(seed)
        x = random.normal(size=1400)
        label = x**2 + random.exponential(size=1400)
        prediction = 0.5 * np.abs(x)
        half = metrics.half_width(0.9, label[:400], prediction[:400])
        assert half is not None
        covered.append(np.mean(np.abs(label[400:] - prediction[400:]) <= half))
    assert 0.88 <= np.mean(covered) <= 0.92


def area(points: list[list[float]]) -> float:
    x, y = np.array(points).T
    return float(np.trapezoid(y, x))


def test_curves_say_what_the_metrics_say() -> None:
    label, score = scored(90)
    found = curves("binary", label, score)
    assert area(found["roc"]) == pytest.approx(evaluate("binary", label, score)["auc"])
    assert found["roc"][0] == [0, 0]
    assert found["roc"][-1] == found["gains"][-1] == [1, 1]
    assert found["pr"][-1] == [1.0, pytest.approx(label.mean())]
    assert sum(group["rows"] for group in found["calibration"]) == 90
    assert base_rates("binary", label, 2)["shares"][1] == pytest.approx(label.mean())
    big = curves("binary", *scored(5000))
    assert len(big["roc"]) <= 101
    assert area(big["roc"]) == pytest.approx(evaluate("binary", *scored(5000))["auc"], abs=0.01)


def test_curves_of_several_classes_and_of_numbers() -> None:
    random = np.random.default_rng(0)
    label = random.integers(0, 3, 300).astype(float)
    table = random.random((300, 3))
    rows = np.array(curves("multiclass", label, table)["confusion"])
    assert rows.sum() == 300
    assert np.trace(rows) / 300 == evaluate("multiclass", label, table)["accuracy"]
    number = random.normal(size=300)
    groups = curves("regression", number, number + 1)["residuals"]
    assert len(groups) == 10
    assert all(g["mean"] == pytest.approx(-1) and g["low"] <= g["middle"] for g in groups)
    assert base_rates("regression", number, 0)["mean"] == number.mean()
    for rows_ in (1, 2):
        curves("regression", number[:rows_], number[:rows_])
        curves("binary", np.ones(rows_), np.full(rows_, 0.5))
