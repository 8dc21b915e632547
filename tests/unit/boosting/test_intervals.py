"""Intervals of metrics: against draws made one by one, and against known truth."""

import numpy as np
import pytest

from opboost_ops.boosting import metrics
from opboost_ops.boosting.bootstrap import replicates
from opboost_ops.boosting.influence import enough
from opboost_ops.boosting.intervals import Comparison
from opboost_ops.boosting.metrics import all_metrics


def _binary(rows: int, seed: int = 3) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    random = np.random.default_rng(seed)
    label = (random.random(rows) < 0.3).astype(float)
    good = 1 / (1 + np.exp(-(2 * label - 1 + random.normal(size=rows))))
    # Few values, so that there are ties.
    poor = np.round(1 / (1 + np.exp(-(label + 2 * random.normal(size=rows)))), 1)
    return label, good, poor


def _multiclass(rows: int) -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(5)
    label = random.integers(0, 3, rows).astype(float)
    raw = random.random((rows, 3)) + np.eye(3)[label.astype(int)]
    return label, raw / raw.sum(axis=1, keepdims=True)


@pytest.mark.parametrize("task", ["binary", "multiclass", "regression"])
def test_a_weighting_gives_the_metrics_of_the_rows_that_it_repeats(task: metrics.Task) -> None:
    from opboost_ops.boosting.bootstrap import _Model

    if task == "binary":
        label, _, prediction = _binary(80)
    elif task == "multiclass":
        label, prediction = _multiclass(80)
    else:
        label, prediction, _ = _binary(80)
        label = 1e6 + label + prediction
        prediction = prediction + 1e6
    random = np.random.default_rng(1)
    weights = np.stack([np.bincount(random.integers(0, 80, 80), minlength=80) for _ in range(20)])
    found = _Model(task, label, prediction).metrics(weights.astype(float))
    for i, times in enumerate(weights):
        rows = np.repeat(np.arange(80), times)
        expected = all_metrics(task, label[rows], prediction[rows])
        assert set(found) == set(expected)
        for name, values in found.items():
            assert values[i] == pytest.approx(expected[name], rel=1e-6)


def test_the_same_rows_give_the_same_intervals_and_a_model_gains_nothing_on_itself() -> None:
    label, good, poor = _binary(400)
    one = Comparison("binary", label, {"good": good, "poor": poor, "twin": good})
    two = Comparison("binary", label, {"good": good, "poor": poor})
    assert one.interval("good", "auc") == two.interval("good", "auc")
    twin = one.gain("good", "twin", "auc")
    assert (twin.value, twin.low, twin.high) == (0.0, 0.0, 0.0)
    gain = one.gain("good", "poor", "auc")
    assert gain.low > 0
    # Less loss is a gain, too.
    assert one.gain("good", "poor", "log_loss").low > 0
    assert one.gain("poor", "good", "brier").high < 0


def test_the_order_of_the_rows_changes_nothing() -> None:
    label, good, poor = _binary(300)
    turned = np.random.default_rng(9).permutation(300)
    one = Comparison("binary", label, {"good": good, "poor": poor})
    two = Comparison("binary", label[turned], {"good": good[turned], "poor": poor[turned]})
    assert one.gain("good", "poor", "auc") == two.gain("good", "poor", "auc")
    classes, table = _multiclass(200)
    turned = turned[turned < 200]
    several = Comparison("multiclass", classes, {"new": table})
    again = Comparison("multiclass", classes[turned], {"new": table[turned]})
    assert several.interval("new", "auc") == again.interval("new", "auc")


def test_pairing_narrows_the_gain() -> None:
    label, good, _ = _binary(500)
    near = np.clip(good + np.random.default_rng(0).normal(scale=0.01, size=500), 0, 1)
    comparison = Comparison("binary", label, {"good": good, "near": near})
    alone, paired = comparison.interval("good", "auc"), comparison.gain("good", "near", "auc")
    assert paired.high - paired.low < (alone.high - alone.low) / 4


@pytest.mark.parametrize("rows", [300, 10_000])
def test_intervals_hold_the_truth_about_as_often_as_they_say(rows: int) -> None:
    """The mean squared error of pure noise is 1: about 95 of 100 intervals hold it."""
    held = 0
    for seed in range(100):
        label = np.random.default_rng(seed).normal(size=rows)
        found = Comparison("regression", label, {"zero": np.zeros(rows)}).interval("zero", "mse")
        held += found.low <= 1.0 <= found.high
    assert 86 <= held <= 99


def test_a_single_row_or_class_has_no_width_and_no_fault() -> None:
    comparison = Comparison("binary", np.ones(1), {"new": np.array([0.4]), "old": np.array([0.6])})
    assert comparison.interval("new", "auc").low == comparison.interval("new", "auc").high == 0.5
    assert comparison.gain("new", "old", "accuracy").value == -1.0


def _large(task: metrics.Task, rows: int) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """Two models whose errors have much in common, with ties and a rare class."""
    random = np.random.default_rng(8)
    noise, more = random.normal(size=(2, rows))
    if task == "regression":
        label = 1e4 + random.gamma(2.0, size=rows)
        near = label + noise
        return label, {"new": near, "old": near + 0.3 * more}
    if task == "binary":
        label = (random.random(rows) < 0.08).astype(float)
        raw = 1.5 * label - 2 + noise
        new, old = 1 / (1 + np.exp(-raw)), 1 / (1 + np.exp(-raw - 0.4 * more))
        return label, {"new": np.round(new, 2), "old": old}
    label = random.choice(3, rows, p=[0.07, 0.33, 0.6]).astype(float)
    raw = np.eye(3)[label.astype(int)] + random.normal(size=(rows, 3))
    other = raw + 0.4 * random.normal(size=(rows, 3))
    return label, {
        name: np.exp(of) / np.exp(of).sum(axis=1, keepdims=True)
        for name, of in (("new", raw), ("old", other))
    }


@pytest.mark.parametrize("task", ["binary", "multiclass", "regression"])
def test_of_many_rows_intervals_agree_with_the_bootstrap_of_them(
    task: metrics.Task, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ends within an eighth of a width: quantiles of 300 draws scatter by a twenty-fifth."""
    monkeypatch.setattr("opboost_ops.boosting.bootstrap._DRAWN", 3_000_000)
    label, predictions = _large(task, 10_000)
    comparison = Comparison(task, label, predictions)
    assert enough(task, label) and "normal" in comparison.method()
    drawn = replicates(task, label, predictions, 1)
    for metric in comparison.names():
        sign = -1 if metric in metrics.LOSSES else 1
        pairs = [
            (comparison.interval("new", metric), drawn["new"][metric]),
            (
                comparison.gain("new", "old", metric),
                sign * (drawn["new"][metric] - drawn["old"][metric]),
            ),
        ]
        for found, of in pairs:
            low, high = np.quantile(of, [0.025, 0.975])
            assert low < found.value < high
            assert abs(found.low - low) < 0.125 * (high - low), metric
            assert abs(found.high - high) < 0.125 * (high - low), metric


def test_few_rows_or_few_of_a_class_are_drawn_and_the_method_says_so() -> None:
    label, predictions = _large("binary", 10_000)
    rare = np.r_[np.ones(499), np.zeros(9_501)]
    assert enough("binary", label) and not enough("binary", rare)
    assert not enough("binary", label[:-1]) and not enough("binary", np.zeros(20_000))
    few = Comparison("binary", label[:200], {"new": predictions["new"][:200]})
    assert few.method() == "paired bootstrap of the held-out rows, 1,000 draws"
