"""Noisy metrics of held-out rows, from sums of one bounded integer per row."""

from collections.abc import Sequence
from fractions import Fraction

import numpy as np

from opboost_ops.learning.metrics import Task
from opboost_ops.learning.private import noise

#: A squared error is an integer number of steps; this many are the greatest possible error.
_STEPS = 1 << 20


def loss_sum(
    task: Task, label: np.ndarray, prediction: np.ndarray, bounds: tuple[float, float]
) -> int:
    """Return the sum of losses over the rows: wrong classes, or squared errors.

    Args:
        task: ``binary`` or ``regression``.
        label: Numbers or class indices, shape (n,).
        prediction: Numbers or probabilities, shape (n,).
        bounds: Public bounds of a numeric label; label and prediction are clipped to them.

    Returns:
        An integer that a row added or removed changes by at most `sensitivity`.
    """
    if task == "binary":
        return int(np.count_nonzero((prediction > 0.5) != (label == 1)))
    low, high = bounds
    error = (np.clip(label, low, high) - np.clip(prediction, low, high)) / (high - low)
    return int(np.minimum(np.rint(error**2 * _STEPS), _STEPS).astype(np.int64).sum())


def sensitivity(task: Task) -> int:
    """Return the greatest change of a sum by one row."""
    return 1 if task == "binary" else _STEPS


def noisy_sums(task: Task, sums: Sequence[int], epsilon: Fraction) -> list[int]:
    """Add discrete Laplace noise to sums over the same rows, which share epsilon equally.

    Args:
        task: ``binary`` or ``regression``.
        sums: Sums from `loss_sum`.
        epsilon: Epsilon of all sums together.
    """
    return noise.laplace(list(sums), sensitivity(task) * len(sums), epsilon)


def difference_error(
    task: Task, values: int, epsilon: float, rows: int, bounds: tuple[float, float]
) -> float:
    """Return the standard error of the difference of two metrics that is due to noise.

    Args:
        task: ``binary`` or ``regression``.
        values: Number of metrics that share epsilon.
        epsilon: Epsilon of all metrics together.
        rows: Public number of rows.
        bounds: As for `loss_sum`.
    """
    # The variance of Laplace noise is twice the square of its scale, and there are two.
    error = 2 * values / (epsilon * rows)
    return error if task == "binary" else error * (bounds[1] - bounds[0]) ** 2


def noisy_metric(
    task: Task, total: int, rows: int, bounds: tuple[float, float]
) -> dict[str, float]:
    """Return the metric of a noisy sum, clipped to its possible range.

    Args:
        task: ``binary`` or ``regression``.
        total: The noisy sum.
        rows: Public number of rows.
        bounds: As for `loss_sum`.

    Returns:
        ``accuracy`` or ``mse``.
    """
    share = min(max(total / (rows * sensitivity(task)), 0.0), 1.0)
    if task == "binary":
        return {"accuracy": 1 - share}
    return {"mse": share * (bounds[1] - bounds[0]) ** 2}
