"""How far metrics of held-out rows may be off by chance, and differences of two models' metrics.

By a normal approximation (`influence`) with Student's quantile; of an AUC of two classes for the
rarer one's number of rows. What a model would be on other training rows is not in these intervals.

>>> compared = Comparison("binary", label, {"new": score, "old": other})
>>> compared.interval("new", "auc")
Interval(value=0.71, low=0.68, high=0.74)
>>> compared.gain("new", "old", "auc")  # Above zero where the first is better, whatever the metric.
Interval(value=0.02, low=-0.01, high=0.05)
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from scipy.special import stdtrit

from opboost_ops.boosting.influence import influences
from opboost_ops.boosting.metrics import EVALUATED, LOSSES, Task, all_metrics

#: Share of intervals that hold what they are of.
LEVEL = 0.95

#: How intervals are found, in words.
METHOD = "normal approximation by each held-out row's influence"

#: Between what a metric can lie.
_RANGES = {"accuracy": (0.0, 1.0), "auc": (0.0, 1.0), "r2": (-math.inf, 1.0)}


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


class Comparison:
    """Metrics of several models on the same held-out rows, with intervals.

    Args:
        task: What was learnt.
        label: Numbers or class indices, shape (n,), n >= 1.
        predictions: By the models' names; shapes as in `metrics.evaluate`.
    """

    def __init__(
        self, task: Task, label: np.ndarray, predictions: Mapping[str, np.ndarray]
    ) -> None:
        # A model may be there twice: unchanged tables train the reference again.
        first = {id(predictions[name]): name for name in [*predictions][::-1]}
        same = {name: first[id(of)] for name, of in predictions.items()}
        predictions = {name: predictions[name] for name in dict.fromkeys(same.values())}
        # Of the rows as they lie: to the last bit what `metrics.evaluate` says of them.
        values = {name: all_metrics(task, label, of) for name, of in predictions.items()}
        # The order of a table is nobody's business: the same rows give the same in any order.
        columns = [np.atleast_2d(of.T) for of in [*predictions.values()][::-1]]
        order = np.lexsort(np.concatenate([*columns, label[None]]))
        ordered = {name: of[order] for name, of in predictions.items()}
        found = influences(task, label[order], ordered)
        self._values = {name: values[of] for name, of in same.items()}
        self._of = {name: found[of] for name, of in same.items()}
        self._evaluated = EVALUATED[task]
        counts = np.unique(label, return_counts=True)[1] if task == "binary" else [len(label)]
        self._rarer = int(min(counts))

    def evaluated(self, name: str) -> dict[str, float]:
        """What `metrics.evaluate` gives of one model."""
        return {metric: self._values[name][metric] for metric in self._evaluated}

    def names(self) -> tuple[str, ...]:
        """Metrics that there are intervals of."""
        return tuple(next(iter(self._of.values())))

    def models(self) -> tuple[str, ...]:
        """Names of the models, as they were given."""
        return tuple(self._values)

    def has(self, name: str) -> bool:
        """Whether a model is among them."""
        return name in self._values

    def interval(self, name: str, metric: str) -> Interval:
        """Of one model's metric."""
        found = self._interval(metric, self._values[name][metric], self._of[name][metric])
        least, most = _RANGES.get(metric, (0.0, math.inf))
        return Interval(found.value, max(found.low, least), min(found.high, most))

    def gain(self, name: str, base: str, metric: str) -> Interval:
        """By how much one model is better than another on the same rows; see the module."""
        sign = -1.0 if metric in LOSSES else 1.0
        value = sign * (self._values[name][metric] - self._values[base][metric])
        of = sign * (self._of[name][metric] - self._of[base][metric])
        return self._interval(metric, value, of)

    def _interval(self, metric: str, value: float, of: np.ndarray) -> Interval:
        error = math.sqrt(np.dot(of, of)) / len(of)
        free = max((self._rarer if metric == "auc" else len(of)) - 1, 1)
        half = error * float(stdtrit(free, (1 + LEVEL) / 2))
        return Interval(value, value - half, value + half)
