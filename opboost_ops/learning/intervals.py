"""Confidence intervals of held-out metrics, and of the difference between two models' metrics.

The standard error follows from each row's influence (`influences`), and the interval from
Student's quantile on the scale on which the metric is closest to normal: log odds for an AUC, the
logarithm for losses and 1 - R2. Few rows decide an AUC with rare positives or a squared error with
heavy tails, so the degrees of freedom count the effective rows, and a skewed metric gets a longer
tail (Johnson, JASA 1978). Accuracy has Wilson's interval. The intervals do not cover the choice of
training rows.

>>> compared = Comparison("binary", label, {"new": score, "old": other})
>>> compared.interval("new", "auc")
Interval(value=0.71, low=0.68, high=0.74)
>>> compared.gain("new", "old", "auc")  # Positive if the first model is better, also for losses.
Interval(value=0.02, low=-0.01, high=0.05)
"""

import math
from collections.abc import Mapping

import numpy as np
from scipy.special import expit, stdtrit

from opboost_ops.learning.metrics import (
    EVALUATED,
    LOSSES,
    Interval,
    Task,
    all_metrics,
    average_ranks,
    row_losses,
)
from opboost_ops.privacy.attacks import wilson

#: Nominal coverage.
LEVEL = 0.95

#: The method as a note under a table.
METHOD = "Student's t by each held-out row's influence; Wilson's interval of an accuracy"

#: A squared error has heavy tails if fewer effective rows than this share make its standard error.
_HEAVY_TAILS = 0.05

#: Effective rows per degree of freedom, fitted to the coverage with normal and heavy-tailed errors.
_ROWS_PER_DEGREE = 1.5


def influences(
    task: Task, label: np.ndarray, predictions: Mapping[str, np.ndarray]
) -> dict[str, dict[str, np.ndarray]]:
    """Return the influence of each row on the metrics of several models.

    Args:
        task: The task of the label.
        label: Numbers or class indices, shape (n,).
        predictions: Predictions by model; shapes as in `metrics.evaluate`.

    Returns:
        Influences by model and metric, shape (n,), with mean zero up to rounding. Undefined metrics
        are omitted, as in `metrics.evaluate`.
    """
    return {name: _influences(task, label, each) for name, each in predictions.items()}


class Comparison:
    """Metrics of several models on the same held-out rows, with confidence intervals.

    Args:
        task: The task of the label.
        label: Numbers or class indices, shape (n,), n >= 1.
        predictions: Predictions by model; shapes as in `metrics.evaluate`.
    """

    def __init__(
        self, task: Task, label: np.ndarray, predictions: Mapping[str, np.ndarray]
    ) -> None:
        # Two names may stand for the same predictions: unchanged tables train the reference again.
        first = {id(predictions[name]): name for name in [*predictions][::-1]}
        same = {name: first[id(each)] for name, each in predictions.items()}
        predictions = {name: predictions[name] for name in dict.fromkeys(same.values())}
        # Keep the order of rows, so that values equal those of `metrics.evaluate` to the bit.
        values = {name: all_metrics(task, label, each) for name, each in predictions.items()}
        # Sort the rows, so that intervals do not depend on their order.
        columns = [np.atleast_2d(each.T) for each in [*predictions.values()][::-1]]
        order = np.lexsort(np.concatenate([*columns, label[None]]))
        ordered = {name: each[order] for name, each in predictions.items()}
        effects = influences(task, label[order], ordered)
        self._values = {name: values[other] for name, other in same.items()}
        self._influences = {name: effects[other] for name, other in same.items()}
        self._evaluated = EVALUATED[task]
        self._rarer = len(label)
        if task == "binary":
            positive = int((label == 1).sum())
            self._rarer = min(positive, len(label) - positive)

    def evaluated(self, name: str) -> dict[str, float]:
        """The metrics of `metrics.evaluate` for one model."""
        values = self._values[name]
        return {metric: values[metric] for metric in self._evaluated if metric in values}

    def names(self) -> tuple[str, ...]:
        """The metrics that are defined on these rows."""
        return tuple(next(iter(self._influences.values())))

    def models(self) -> tuple[str, ...]:
        """The names of the models, in the given order."""
        return tuple(self._values)

    def has(self, name: str) -> bool:
        """True if there is a model of this name."""
        return name in self._values

    def interval(self, name: str, metric: str) -> Interval:
        """The interval of one model's metric."""
        value, influence = self._values[name][metric], self._influences[name][metric]
        if metric == "accuracy":
            return _wilson(value, len(influence))
        if metric == "auc":
            return self._auc_interval(value, influence)
        if metric == "r2":
            low, high = _logarithmic_interval(1 - value, -influence)
            return Interval(value, 1 - high, 1 - low)
        return Interval(value, *_logarithmic_interval(value, influence))

    def gain(self, name: str, base: str, metric: str) -> Interval:
        """The interval of one model's advantage over another; positive if it is better."""
        sign = -1.0 if metric in LOSSES else 1.0
        value = sign * (self._values[name][metric] - self._values[base][metric])
        influence = sign * (self._influences[name][metric] - self._influences[base][metric])
        degrees = float(self._rarer - 1) if metric == "auc" else _degrees(influence)
        below, above = _deviations(influence, degrees)
        return Interval(value, value - below, value + above)

    def heavy_tailed(self, name: str) -> bool:
        """True if few rows dominate a regression's squared error, which widens its intervals."""
        influence = self._influences[name].get("r2")
        return influence is not None and _effective_rows(influence) < _HEAVY_TAILS * len(influence)

    def _auc_interval(self, value: float, influence: np.ndarray) -> Interval:
        if not influence.any():
            # All pairs are ordered correctly, or none: a bound on the chance of this by row.
            reach = (1 - LEVEL) ** (1 / self._rarer)
            ends = {1.0: (reach, 1.0), 0.0: (0.0, 1 - reach)}
            return Interval(value, *ends.get(value, (value, value)))
        slope = 1 / (value * (1 - value))
        below, above = _deviations(influence * slope, self._rarer - 1)
        odds = math.log(value / (1 - value))
        return Interval(value, float(expit(odds - below)), float(expit(odds + above)))


def _influences(task: Task, label: np.ndarray, prediction: np.ndarray) -> dict[str, np.ndarray]:
    effects = {
        name: losses - losses.mean() for name, losses in row_losses(task, label, prediction).items()
    }
    if (label == label[0]).all():
        return effects
    if task == "regression":
        effects["r2"] = _r2_influence(label, (label - prediction) ** 2)
    elif task == "binary":
        effects["auc"] = _auc_influence(label == 1, prediction)
    else:
        present = [int(c) for c in np.unique(label)]
        areas = [_auc_influence(label == c, prediction[:, c]) for c in present]
        effects["auc"] = np.mean(areas, axis=0)
    return effects


def _r2_influence(label: np.ndarray, squares: np.ndarray) -> np.ndarray:
    """Return the influences on 1 - mse / variance, by the delta method."""
    about = (label - label.mean()) ** 2
    spread, mse = about.mean(), squares.mean()
    if spread == 0:
        return np.zeros(len(label))
    return np.asarray((mse / spread * (about - spread) - (squares - mse)) / spread)


def _auc_influence(positive: np.ndarray, score: np.ndarray) -> np.ndarray:
    """Return the influences on the AUC.

    They follow from the share of rows of the other class that a row is correctly ordered with,
    where a tie counts half.
    """
    n, (m, k) = len(score), (int(positive.sum()), int((~positive).sum()))
    ranks = average_ranks(score)
    won = (ranks[positive] - average_ranks(score[positive])) / k
    lost = (ranks[~positive] - average_ranks(score[~positive])) / m
    effects = np.empty(n)
    # As in DeLong's variances, the denominators are one row less, which matters for few positives.
    effects[positive] = (won - won.mean()) * n / math.sqrt(m * max(m - 1, 1))
    effects[~positive] = (lost.mean() - lost) * n / math.sqrt(k * max(k - 1, 1))
    return effects


def _wilson(share: float, rows: int) -> Interval:
    low, high = wilson(round(share * rows), rows)
    return Interval(share, min(low, share), max(high, share))


def _logarithmic_interval(value: float, influence: np.ndarray) -> tuple[float, float]:
    """Return the ends of a positive number's interval, from the interval of its logarithm."""
    if value <= 0:
        return value, value
    below, above = _deviations(influence / value, _degrees(influence))
    # Limit the factor to e^300, which avoids an overflow.
    return value * math.exp(-min(below, 300)), value * math.exp(min(above, 300))


def _deviations(influence: np.ndarray, degrees: float) -> tuple[float, float]:
    """Return the distances from the value to the interval's lower and upper end.

    Johnson's correction shifts the interval towards the longer tail; here it only extends that
    side, because samples underestimate the skewness of heavy tails.
    """
    rows = len(influence)
    error = math.sqrt(np.dot(influence, influence)) / rows
    if error == 0:
        return 0.0, 0.0
    quantile = float(stdtrit(max(degrees, 1.0), (1 + LEVEL) / 2))
    skewness = float(np.mean(influence**3)) / (error * math.sqrt(rows)) ** 3
    shift = skewness / (6 * math.sqrt(rows)) * (1 + 2 * quantile**2)
    return error * (quantile - min(shift, 0.0)), error * (quantile + max(shift, 0.0))


def _degrees(influence: np.ndarray) -> float:
    return _effective_rows(influence) / _ROWS_PER_DEGREE - 1


def _effective_rows(influence: np.ndarray) -> float:
    """Rows that make the standard error: all if their squared influences are equal."""
    squares = influence**2
    total = float(squares.sum())
    return total**2 / float(np.dot(squares, squares)) if total > 0 else float(len(influence))
