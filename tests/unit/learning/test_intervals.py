"""Intervals of metrics: against a bootstrap, and against known truth."""

import numpy as np
import pytest

from benchmarks.coverage import coverage
from opboost_ops.learning import metrics
from opboost_ops.learning.intervals import Comparison
from opboost_ops.learning.metrics import all_metrics


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


@pytest.mark.parametrize("rows", [300, 10_000])
def test_intervals_hold_the_truth_about_as_often_as_they_say(rows: int) -> None:
    """The mean squared error of pure noise is 1: about 95 of 100 intervals hold it."""
    held = 0
    for seed in range(100):
        label = np.random.default_rng(seed).normal(size=rows)
        found = Comparison("regression", label, {"zero": np.zeros(rows)}).interval("zero", "mse")
        held += found.low <= 1.0 <= found.high
    assert 86 <= held <= 99


def test_with_few_positives_chance_does_not_show_one_of_two_equal_models_to_be_worse() -> None:
    """At 95 % either is shown to be worse in one of forty tables, and not in one of ten."""
    random, worse = np.random.default_rng(4), 0
    for positives in [1, 2, 3, 4] * 100:
        label = np.r_[np.ones(positives), np.zeros(40)]
        one, other = (2 * label + random.normal(size=len(label)) for _ in range(2))
        found = Comparison("binary", label, {"one": one, "other": other})
        worse += found.gain("one", "other", "auc").high < 0
    assert worse <= 10


def test_perfect_order_of_few_positives_does_not_make_an_interval_of_no_width() -> None:
    label = np.r_[np.ones(10), np.zeros(90)]
    interval = Comparison("binary", label, {"new": label}).interval("new", "auc")
    assert interval.high == 1.0
    assert 0.6 < interval.low < 0.8


def test_a_single_row_or_class_has_no_width_and_no_fault() -> None:
    comparison = Comparison("binary", np.ones(1), {"new": np.array([0.4]), "old": np.array([0.6])})
    assert "auc" not in comparison.names()
    assert list(comparison.evaluated("new")) == ["accuracy"]
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


@pytest.mark.parametrize(
    "setting",
    [
        "accuracy .95, 60 rows",
        "AUC .97, 40 positives of 2,000",
        "R2 .5, noise of t3, 300 rows",
    ],
)
def test_intervals_cover_the_truth_where_few_rows_decide(setting: str) -> None:
    """A coverage of .95 is below .905 in one of ten thousand such tests."""
    assert 0.905 <= coverage(setting, 400)[0] <= 0.995


@pytest.mark.parametrize(
    "task", ["binary", pytest.param("multiclass", marks=pytest.mark.slow), "regression"]
)
def test_intervals_agree_with_the_bootstrap_of_the_rows(task: metrics.Task) -> None:
    """Ends within a sixth of a width: quantiles of 300 draws scatter by a twenty-fifth."""
    rows = 10_000
    label, predictions = _large(task, rows)
    comparison = Comparison(task, label, predictions)
    random, drawn = np.random.default_rng(1), []
    for _ in range(300):
        at = random.integers(0, rows, rows)
        drawn.append({n: all_metrics(task, label[at], of[at]) for n, of in predictions.items()})
    for metric in comparison.names():
        sign = -1 if metric in metrics.LOSSES else 1
        new, old = (np.array([each[name][metric] for each in drawn]) for name in ("new", "old"))
        pairs = [
            (comparison.interval("new", metric), new),
            (comparison.gain("new", "old", metric), sign * (new - old)),
        ]
        for found, of in pairs:
            low, high = np.quantile(of, [0.025, 0.975])
            assert low < found.value < high
            assert abs(found.low - low) < (high - low) / 6, metric
            assert abs(found.high - high) < (high - low) / 6, metric
