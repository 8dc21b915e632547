"""How far metrics of held-out rows may be off by chance: a paired bootstrap of those rows.

Rows are drawn with replacement, the same ones for every model, so that what is common to two models
cancels in their difference. Percentile intervals: Efron and Tibshirani, An Introduction to the
Bootstrap (1993), chapter 13. What a model would be on other training rows is not in them.

>>> drawn = Bootstrap("binary", label, {"new": score, "old": other})
>>> drawn.interval("new", "auc")
Interval(value=0.71, low=0.68, high=0.74)
>>> drawn.gain("new", "old", "auc")  # Above zero where the first is better, whatever the metric.
Interval(value=0.02, low=-0.01, high=0.05)
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from opboost_ops.boosting.metrics import Task, evaluate

#: Share of intervals that hold what they are of.
LEVEL = 0.95

_MOST, _FEWEST = 1000, 200
#: Drawn rows of all replicates together: more replicates of a large table would tell little.
_DRAWN = 20_000_000
#: Of them at once in memory.
_AT_ONCE = 2_000_000

#: Metrics of which less is better.
LOSSES = ("mse", "mae", "brier", "log_loss")

#: No prediction is surer than this in a log loss.
_LEAST = 1e-15


@dataclass(frozen=True)
class Interval:
    """A value and where it may lie.

    Attributes:
        value: On the held-out rows as they are.
        low: Lower end.
        high: Upper end.
    """

    value: float
    low: float
    high: float

    def document(self) -> dict[str, float]:
        """As a JSON value."""
        return {"value": self.value, "low": self.low, "high": self.high}

    def __str__(self) -> str:
        return f"{self.value:.4f} ({self.low:.4f} to {self.high:.4f})"


class Bootstrap:
    """Metrics of several models on the same held-out rows, drawn again and again.

    Args:
        task: What was learnt.
        label: Numbers or class indices, shape (n,), n >= 1.
        predictions: By the models' names; shapes as in `metrics.evaluate`.
        seed: Of the draws: the same rows give the same intervals.
    """

    def __init__(
        self, task: Task, label: np.ndarray, predictions: Mapping[str, np.ndarray], seed: int = 0
    ) -> None:
        self._values = {n: all_metrics(task, label, of) for n, of in predictions.items()}
        # The order of a table is nobody's business: the same rows give the same draws in any order.
        columns = [np.atleast_2d(of.T) for of in [*predictions.values()][::-1]]
        order = np.lexsort(np.concatenate([*columns, label[None]]))
        label = label[order]
        predictions = {name: of[order] for name, of in predictions.items()}
        rows = len(label)
        replicates = int(np.clip(_DRAWN // rows, _FEWEST, _MOST))
        models = {name: _Model(task, label, of) for name, of in predictions.items()}
        found: dict[str, list[dict[str, np.ndarray]]] = {name: [] for name in predictions}
        # Nothing private hangs on these draws: who has the rows may know which of them counted.
        random = np.random.default_rng([seed, rows])  # noqa: TID251
        block = max(1, _AT_ONCE // rows)
        for begin in range(0, replicates, block):
            count = min(block, replicates - begin)
            at = random.integers(0, rows, (count, rows))
            at += np.arange(count)[:, None] * rows
            times = np.bincount(at.ravel(), minlength=count * rows).reshape(count, rows)
            weights = times.astype(np.float64)
            for name, model in models.items():
                found[name].append(model.metrics(weights))
        self._drawn = {
            name: {metric: np.concatenate([part[metric] for part in parts]) for metric in parts[0]}
            for name, parts in found.items()
        }

    def names(self) -> tuple[str, ...]:
        """Metrics that there are intervals of."""
        return tuple(next(iter(self._drawn.values())))

    def models(self) -> tuple[str, ...]:
        """Names of the models, as they were given."""
        return tuple(self._values)

    def has(self, name: str) -> bool:
        """Whether a model is among them."""
        return name in self._values

    def interval(self, name: str, metric: str) -> Interval:
        """Of one model's metric."""
        return _interval(self._values[name][metric], self._drawn[name][metric])

    def gain(self, name: str, base: str, metric: str) -> Interval:
        """By how much one model is better than another on the same rows; see the module."""
        sign = -1.0 if metric in LOSSES else 1.0
        value = sign * (self._values[name][metric] - self._values[base][metric])
        drawn = sign * (self._drawn[name][metric] - self._drawn[base][metric])
        return _interval(value, drawn)


def all_metrics(task: Task, label: np.ndarray, prediction: np.ndarray) -> dict[str, float]:
    """`metrics.evaluate` with ``brier`` and ``log_loss``, or ``mae``.

    Args:
        task: What was learnt.
        label: Numbers or class indices, shape (n,).
        prediction: As `metrics.evaluate` takes it.
    """
    found = evaluate(task, label, prediction)
    for name, losses in _losses(task, label, prediction).items():
        found.setdefault(name, float(losses.mean()))
    return found


def _losses(task: Task, label: np.ndarray, prediction: np.ndarray) -> dict[str, np.ndarray]:
    """By metric, what each row adds to it: the metric is their mean."""
    if task == "regression":
        error = label - prediction
        return {"mse": error**2, "mae": np.abs(error)}
    if task == "binary":
        hit = (prediction > 0.5) == (label == 1)
        given = np.where(label == 1, prediction, 1 - prediction)
        brier = (label - prediction) ** 2
    else:
        at = label.astype(np.int64)
        hit = prediction.argmax(axis=1) == label
        given = prediction[np.arange(len(label)), at]
        brier = ((prediction - np.eye(prediction.shape[1])[at]) ** 2).sum(axis=1)
    log_loss = -np.log(np.clip(given, _LEAST, 1.0))
    return {"accuracy": hit.astype(np.float64), "brier": brier, "log_loss": log_loss}


class _Model:
    """One model's predictions, ready for many weightings of the rows."""

    def __init__(self, task: Task, label: np.ndarray, prediction: np.ndarray) -> None:
        losses = _losses(task, label, prediction)
        self._task, self._label = task, label
        self._names = tuple(losses)
        self._losses = np.column_stack(list(losses.values()))
        self._ranked = []
        if task == "binary":
            self._ranked = [_Ranked(label == 1, prediction)]
        elif task == "multiclass":
            present = [int(c) for c in np.unique(label)]
            self._ranked = [_Ranked(label == c, prediction[:, c]) for c in present]

    def metrics(self, weights: np.ndarray) -> dict[str, np.ndarray]:
        """By name, shape (replicates,); weights have shape (replicates, n)."""
        total = weights.sum(axis=1)
        means = weights @ self._losses / total[:, None]
        found = dict(zip(self._names, means.T, strict=True))
        if self._task == "regression":
            # About the mean first: of large numbers the squares would lose the difference.
            label = self._label - self._label.mean()
            first, second = (weights @ label) / total, (weights @ label**2) / total
            spread = second - first**2
            safe = np.where(spread > 0, spread, 1.0)
            found["r2"] = np.where(spread > 0, 1 - found["mse"] / safe, np.nan)
        else:
            areas = [ranked.area(weights) for ranked in self._ranked]
            found["auc"] = np.mean(areas, axis=0)
        return found


class _Ranked:
    """Rows in the order of their score."""

    def __init__(self, positive: np.ndarray, score: np.ndarray) -> None:
        self._order = np.argsort(score, kind="stable")
        ordered = score[self._order]
        self._starts = np.flatnonzero(np.r_[True, ordered[1:] != ordered[:-1]])
        self._positive = positive[self._order].astype(np.float64)

    def area(self, weights: np.ndarray) -> np.ndarray:
        """Areas under the ROC curve; not a number where a draw lacks a class."""
        ordered = weights[:, self._order]
        positive = ordered * self._positive
        negative = ordered - positive
        if len(self._starts) < ordered.shape[1]:
            positive = np.add.reduceat(positive, self._starts, axis=1)
            negative = np.add.reduceat(negative, self._starts, axis=1)
        below = np.cumsum(negative, axis=1)
        all_positive, all_negative = positive.sum(axis=1), below[:, -1].copy()
        # Ties count half, as in `metrics`.
        won = (positive * (below - negative / 2)).sum(axis=1)
        pairs = all_positive * all_negative
        return np.where(pairs > 0, won / np.where(pairs > 0, pairs, 1.0), np.nan)


def _interval(value: float, drawn: np.ndarray) -> Interval:
    known = drawn[np.isfinite(drawn)]
    if len(known) == 0:
        return Interval(value, value, value)
    low, high = np.quantile(known, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return Interval(value, float(low), float(high))
