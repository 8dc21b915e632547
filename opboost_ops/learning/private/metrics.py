"""Metrics of held-out rows with noise: sums of one bounded integer a row."""

from collections.abc import Sequence
from fractions import Fraction

import numpy as np

from opboost_ops.learning.metrics import Task
from opboost_ops.learning.private import noise

#: A squared error is an integer share of the greatest possible one.
_STEPS = 1 << 20


def loss_sum(
    task: Task, label: np.ndarray, prediction: np.ndarray, bounds: tuple[float, float]
) -> int:
    """The sum of a metric over the rows: wrong classes, or squared errors.

    Args:
        task: ``binary`` or ``regression``.
        label: Numbers or class indices, shape (n,).
        prediction: Numbers or probabilities, shape (n,).
        bounds: Public bounds of a number; label and prediction are clipped to them.

    Returns:
        An integer that a row added or removed changes by at most `sensitivity`.
    """
    if task == "binary":
        return int(np.count_nonzero((prediction > 0.5) != (label == 1)))
    low, high = bounds
    error = (np.clip(label, low, high) - np.clip(prediction, low, high)) / (high - low)
    return int(np.minimum(np.rint(error**2 * _STEPS), _STEPS).astype(np.int64).sum())


def sensitivity(task: Task) -> int:
    """By how much one row changes a sum at most.

    Args:
        task: ``binary`` or ``regression``.
    """
    return 1 if task == "binary" else _STEPS


def noisy_sums(task: Task, sums: Sequence[int], epsilon: Fraction) -> list[int]:
    """Sums over the same rows, each with discrete Laplace noise at its share of epsilon.

    Args:
        task: ``binary`` or ``regression``.
        sums: Of `loss_sum`.
        epsilon: Of all of them together.
    """
    return noise.laplace(list(sums), sensitivity(task) * len(sums), epsilon)


def difference_error(
    task: Task, values: int, epsilon: float, rows: int, bounds: tuple[float, float]
) -> float:
    """The standard error of the difference of two metrics by their noise alone.

    Args:
        task: ``binary`` or ``regression``.
        values: How many metrics share epsilon.
        epsilon: Of all of them together.
        rows: How many rows; public.
        bounds: As `loss_sum` has them.
    """
    # The variance of Laplace noise is twice the square of its scale, and there are two.
    error = 2 * values / (epsilon * rows)
    return error if task == "binary" else error * (bounds[1] - bounds[0]) ** 2


def noisy_metric(
    task: Task, total: int, rows: int, bounds: tuple[float, float]
) -> dict[str, float]:
    """The metric that a noisy sum says, brought back to where a metric can be.

    Args:
        task: ``binary`` or ``regression``.
        total: The sum, with noise.
        rows: How many rows; public.
        bounds: As `loss_sum` has them.

    Returns:
        ``accuracy`` or ``mse``.
    """
    share = min(max(total / (rows * sensitivity(task)), 0.0), 1.0)
    if task == "binary":
        return {"accuracy": 1 - share}
    return {"mse": share * (bounds[1] - bounds[0]) ** 2}
