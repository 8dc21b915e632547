"""Metrics of rows that are drawn again and again, with replacement: a paired bootstrap.

Rows are the same ones for every model, so that what is common to two models cancels in their
difference. Percentile intervals: Efron and Tibshirani, An Introduction to the Bootstrap (1993),
chapter 13.
"""

from collections.abc import Mapping

import numpy as np

from opboost_ops.boosting.metrics import Task, row_losses

_MOST, _FEWEST = 1000, 200
#: Drawn rows of all replicates together: more replicates of a large table would tell little.
_DRAWN = 10_000_000
#: Of them at once in memory.
_AT_ONCE = 2_000_000
#: Of these at once where each is looked at several times: so many stay in the processor's cache.
_IN_CACHE = 32_768


def replicates_of(rows: int) -> int:
    """How often rows are drawn.

    Args:
        rows: How many there are.
    """
    return int(np.clip(_DRAWN // rows, _FEWEST, _MOST))


def replicates(
    task: Task, label: np.ndarray, predictions: Mapping[str, np.ndarray], seed: int
) -> dict[str, dict[str, np.ndarray]]:
    """Metrics of several models on the same drawn rows.

    Args:
        task: What was learnt.
        label: Numbers or class indices, shape (n,), n >= 1.
        predictions: By the models' names; shapes as in `metrics.evaluate`.
        seed: Of the draws: the same rows in the same order give the same figures.

    Returns:
        By name and metric, shape (replicates,); not a number where a draw lacks a class.
    """
    rows = len(label)
    count = replicates_of(rows)
    models = {name: _Model(task, label, of) for name, of in predictions.items()}
    found: dict[str, list[dict[str, np.ndarray]]] = {name: [] for name in predictions}
    # Nothing private hangs on these draws: who has the rows may know which of them counted.
    random = np.random.default_rng([seed, rows])  # noqa: TID251
    block = max(1, _AT_ONCE // rows)
    for begin in range(0, count, block):
        here = min(block, count - begin)
        at = random.integers(0, rows, (here, rows))
        at += np.arange(here)[:, None] * rows
        times = np.bincount(at.ravel(), minlength=here * rows).reshape(here, rows)
        weights = times.astype(np.float64)
        for name, model in models.items():
            found[name].append(model.metrics(weights))
    return {
        name: {metric: np.concatenate([part[metric] for part in parts]) for metric in parts[0]}
        for name, parts in found.items()
    }


def ends(drawn: np.ndarray, level: float) -> tuple[float, float] | None:
    """Percentile interval; None if no draw has a value.

    Args:
        drawn: A metric, or a difference of two, by replicate.
        level: Share of replicates within.
    """
    known = drawn[np.isfinite(drawn)]
    if len(known) == 0:
        return None
    low, high = np.quantile(known, [(1 - level) / 2, (1 + level) / 2])
    return float(low), float(high)


class _Model:
    """One model's predictions, ready for many weightings of the rows."""

    def __init__(self, task: Task, label: np.ndarray, prediction: np.ndarray) -> None:
        losses = row_losses(task, label, prediction)
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
        found = np.empty(len(weights))
        step = max(1, _IN_CACHE // weights.shape[1])
        for begin in range(0, len(weights), step):
            here = slice(begin, begin + step)
            found[here] = self._area(weights[here])
        return found

    def _area(self, weights: np.ndarray) -> np.ndarray:
        # All sums are of whole and half numbers, and so exact in any order.
        ordered = weights.take(self._order, axis=1)
        positive = ordered * self._positive
        negative = np.subtract(ordered, positive, out=ordered)
        if len(self._starts) < ordered.shape[1]:
            positive = np.add.reduceat(positive, self._starts, axis=1)
            negative = np.add.reduceat(negative, self._starts, axis=1)
        below = np.cumsum(negative, axis=1)
        all_positive, all_negative = positive.sum(axis=1), below[:, -1].copy()
        # Ties count half, as in `metrics`.
        negative *= 0.5
        below -= negative
        won = np.einsum("ij,ij->i", positive, below)
        pairs = all_positive * all_negative
        return np.where(pairs > 0, won / np.where(pairs > 0, pairs, 1.0), np.nan)
