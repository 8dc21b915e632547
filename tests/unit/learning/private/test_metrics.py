"""Metrics with noise: how much a row moves them, and what is drawn."""

from fractions import Fraction

import numpy as np
import pytest

from opboost_ops.learning.metrics import Task, evaluate
from opboost_ops.learning.private import metrics
from tests.statistical.test_triple import DRAWS, P, p_value

TASKS: tuple[Task, ...] = ("binary", "regression")


@pytest.mark.parametrize("task", TASKS)
def test_a_row_moves_a_sum_by_no_more_than_the_sensitivity(task: Task) -> None:
    bounds = (-3.0, 5.0)
    # Also far outside the bounds, where an unclipped error would be larger.
    labels = [0.0, 1.0] if task == "binary" else [-9.0, -3.0, 0.1, 5.0, 1e6]
    predictions = [0.0, 0.5, 0.6, 1.0] if task == "binary" else [-1e6, -3.0, 0.7, 5.0]
    some = (np.array(labels[:2]), np.array(predictions[:2]))
    before = metrics.loss_sum(task, *some, bounds)
    moves = set()
    for label in labels:
        for prediction in predictions:
            more = (np.append(some[0], label), np.append(some[1], prediction))
            moves.add(metrics.loss_sum(task, *more, bounds) - before)
    assert min(moves) >= 0
    assert max(moves) == metrics.sensitivity(task)


def test_several_sums_over_the_same_rows_share_epsilon() -> None:
    epsilon, reach = Fraction(2), 12
    pairs = [metrics.noisy_sums("binary", [40, 7], epsilon) for _ in range(DRAWS // 20)]
    for at, total in enumerate((40, 7)):
        noise = np.clip(np.array(pairs)[:, at] - total, -reach, reach) + reach
        counts = np.bincount(noise, minlength=2 * reach + 1)
        ratio = np.exp(-1.0)  # Half of epsilon for each.
        law = (1 - ratio) / (1 + ratio) * ratio ** np.abs(np.arange(-reach, reach + 1))
        law[[0, -1]] = ratio**reach / (1 + ratio)
        assert p_value(counts, law) > P
        wrong = ratio**2
        law = (1 - wrong) / (1 + wrong) * wrong ** np.abs(np.arange(-reach, reach + 1))
        assert p_value(counts, law / law.sum()) < P


def test_what_a_noisy_sum_says_stays_where_metrics_are() -> None:
    assert metrics.noisy_metric("binary", 25, 100, (0, 1)) == {"accuracy": 0.75}
    assert metrics.noisy_metric("binary", -3, 100, (0, 1)) == {"accuracy": 1.0}
    assert metrics.noisy_metric("binary", 130, 100, (0, 1)) == {"accuracy": 0.0}
    bounds, rng = (-3.0, 5.0), np.random.default_rng(0)
    label, prediction = rng.uniform(-3, 5, (2, 1000))
    total = metrics.loss_sum("regression", label, prediction, bounds)
    exact = np.mean((label - prediction) ** 2)
    assert metrics.noisy_metric("regression", total, 1000, bounds)["mse"] == pytest.approx(
        exact, rel=1e-4
    )


def test_a_sum_without_noise_is_the_metric_of_the_other_models() -> None:
    label = np.array([0.0, 1.0, 1.0, 0.0, 1.0])
    prediction = np.array([0.2, 0.9, 0.5, 0.7, 0.51])
    total = metrics.loss_sum("binary", label, prediction, (0.0, 1.0))
    found = metrics.noisy_metric("binary", total, 5, (0.0, 1.0))["accuracy"]
    assert found == pytest.approx(evaluate("binary", label, prediction)["accuracy"])
    assert found == pytest.approx(3 / 5)


@pytest.mark.parametrize("task", TASKS)
def test_the_standard_error_of_a_difference_is_that_of_the_noise(task: Task) -> None:
    values, epsilon, rows, bounds = 3, Fraction(1, 2), 2_000, (-3.0, 5.0)
    middle = rows * metrics.sensitivity(task) // 2
    (key,) = metrics.noisy_metric(task, middle, rows, bounds)
    differences = []
    for _ in range(2_000):
        first, second, _ = metrics.noisy_sums(task, [middle] * values, epsilon)
        a, b = (metrics.noisy_metric(task, each, rows, bounds)[key] for each in (first, second))
        differences.append(a - b)
    error = metrics.difference_error(task, values, float(epsilon), rows, bounds)
    assert np.std(differences) == pytest.approx(error, rel=0.15)
