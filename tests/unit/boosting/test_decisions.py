"""Thresholds by cost, share and precision; intervals that hold as often as they say."""

import numpy as np
import pytest

from opboost_ops.boosting import decisions
from opboost_ops.boosting.curves import base_rates, curves
from opboost_ops.boosting.metrics import evaluate
from opboost_ops.config.scoring import Threshold


def scored(rows: int = 1000, seed: int = 4) -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(seed)
    score = random.random(rows)
    return (random.random(rows) < score**2).astype(float), score


def test_a_threshold_by_cost_has_the_least_cost() -> None:
    label, _ = scored(20_000)
    random = np.random.default_rng(0)
    truth = random.random(20_000)
    label = (random.random(20_000) < truth).astype(float)
    chosen = decisions.threshold_of(Threshold(cost_ratio=4), label, truth)["value"]
    assert chosen == 0.2

    def cost(value: float) -> float:
        found = decisions.confusion(label, truth, value)
        return 4 * found["false_negative"] + found["false_positive"]

    assert cost(chosen) < min(cost(0.1), cost(0.3), cost(0.5))


@pytest.mark.parametrize("share", [0.001, 0.1, 0.5, 0.999])
def test_a_share_of_rows_is_flagged(share: float) -> None:
    label, score = scored()
    value = decisions.threshold_of(Threshold(share=share), label, score)["value"]
    assert decisions.confusion(label, score, value)["share"] == pytest.approx(share, abs=0.001)


def test_the_most_rows_are_flagged_that_keep_the_precision() -> None:
    label, score = scored()
    score = np.round(score, 2)
    found = decisions.threshold_of(Threshold(precision=0.7), label, score)
    at = decisions.confusion(label, score, found["value"])
    assert found["reached"]
    assert at["precision"] >= 0.7
    # The greatest of the lower scores flags the same rows.
    lower = np.unique(score[score < found["value"]])[:-1]
    assert all(decisions.confusion(label, score, v)["precision"] < 0.7 for v in [-1.0, *lower])


@pytest.mark.parametrize("rule", [Threshold(share=0.2), Threshold(precision=0.7)])
def test_a_threshold_is_no_score_that_other_software_may_round_otherwise(rule: Threshold) -> None:
    label, score = scored()
    value = decisions.threshold_of(rule, label, score)["value"]
    flagged = decisions.confusion(label, score, value)
    for rounded in (np.nextafter(score, 0), np.nextafter(score, 1)):
        assert decisions.confusion(label, rounded, value) == flagged


def test_a_precision_that_no_score_has_flags_nobody() -> None:
    label, score = np.zeros(10), np.linspace(0, 1, 10)
    found = decisions.threshold_of(Threshold(precision=0.9), label, score)
    assert not found["reached"]
    assert decisions.confusion(label, score, found["value"])["share"] == 0


def test_intervals_of_ninety_per_cent_hold_ninety_of_a_hundred() -> None:
    """Mean coverage of 20 splits, of a model that is wrong and of noise that is skewed."""
    covered = []
    for seed in range(20):
        random = np.random.default_rng(seed)
        x = random.normal(size=1400)
        label = x**2 + random.exponential(size=1400)
        prediction = 0.5 * np.abs(x)
        half = decisions.half_width(0.9, label[:400], prediction[:400])
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
