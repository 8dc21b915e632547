"""What each held-out row does to a metric, by which it is known how far chance may have moved it.

To first order a metric is a mean over rows: of each row's *influence*, what the metric would gain
by a little more of that row. The standard error is the root of the squared influences' sum over n
(the infinitesimal jackknife: Efron, The Jackknife, the Bootstrap and Other Resampling Plans (1982),
chapter 6). Of an AUC it is DeLong's (DeLong, DeLong and Clarke-Pearson 1988). Influences of two
models on the same rows are subtracted row by row, so that what is common to both cancels.
"""

import math
from collections.abc import Mapping

import numpy as np

from opboost_ops.learning.metrics import Task, row_losses


def influences(
    task: Task, label: np.ndarray, predictions: Mapping[str, np.ndarray]
) -> dict[str, dict[str, np.ndarray]]:
    """What each row does to the metrics of several models.

    Args:
        task: What was learnt.
        label: Numbers or class indices, shape (n,).
        predictions: By the models' names; shapes as in `metrics.evaluate`.

    Returns:
        By name and metric, shape (n,); each has the mean zero, up to rounding. Metrics that are
        undefined, as `metrics.evaluate` says, are left out.
    """
    return {name: _of(task, label, of) for name, of in predictions.items()}


def _of(task: Task, label: np.ndarray, prediction: np.ndarray) -> dict[str, np.ndarray]:
    found = {
        name: losses - losses.mean() for name, losses in row_losses(task, label, prediction).items()
    }
    if (label == label[0]).all():
        return found
    if task == "regression":
        found["r2"] = _r2(label, (label - prediction) ** 2)
    elif task == "binary":
        found["auc"] = _auc(label == 1, prediction)
    else:
        present = [int(c) for c in np.unique(label)]
        areas = [_auc(label == c, prediction[:, c]) for c in present]
        found["auc"] = np.mean(areas, axis=0)
    return found


def _r2(label: np.ndarray, squares: np.ndarray) -> np.ndarray:
    """Of 1 - mse / variance, by the delta method."""
    about = (label - label.mean()) ** 2
    spread, mse = about.mean(), squares.mean()
    if spread == 0:
        return np.zeros(len(label))
    return np.asarray((mse / spread * (about - spread) - (squares - mse)) / spread)


def _auc(positive: np.ndarray, score: np.ndarray) -> np.ndarray:
    """Of each row: the share of the other class that it is on the right side of; ties half."""
    # Loading it takes half a second, which most processes need not spend.
    from scipy.stats import rankdata

    n, (m, k) = len(score), (int(positive.sum()), int((~positive).sum()))
    ranks = rankdata(score)
    won = (ranks[positive] - rankdata(score[positive])) / k
    lost = (ranks[~positive] - rankdata(score[~positive])) / m
    found = np.empty(n)
    # DeLong's variances have one row less in their denominators, which few positives need.
    found[positive] = (won - won.mean()) * n / math.sqrt(m * max(m - 1, 1))
    found[~positive] = (lost.mean() - lost) * n / math.sqrt(k * max(k - 1, 1))
    return found
