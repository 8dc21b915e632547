"""Metrics of held-out rows, losses of objectives, and decision thresholds."""

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Literal

import numpy as np
import polars as pl

from opboost_ops.learning.boosters.backend import Parameters

Task = Literal["binary", "multiclass", "regression"]

#: Metrics for which lower is better.
LOSSES = ("mse", "mae", "brier", "log_loss")

#: The metrics of `evaluate`.
EVALUATED: Mapping[Task, tuple[str, str]] = {
    "binary": ("accuracy", "auc"),
    "multiclass": ("accuracy", "auc"),
    "regression": ("mse", "r2"),
}

#: Least probability, or predicted mean, in a logarithm.
_MIN_PROBABILITY = 1e-15

#: Default width of the quadratic part of the Huber loss.
_HUBER = {"lightgbm": 0.9, "xgboost": 1.0}

#: The threshold without a cost ratio: predict the more likely of two classes.
EVEN_ODDS = 0.5


@dataclass(frozen=True)
class Interval:
    """A metric with its 95 % confidence interval.

    Attributes:
        value: The metric of the rows.
        low: Lower end of the interval; NaN if there is none.
        high: Upper end of the interval; NaN if there is none.
    """

    value: float
    low: float = math.nan
    high: float = math.nan

    def document(self) -> dict[str, float]:
        """The interval as a JSON value."""
        return asdict(self)

    def __str__(self) -> str:
        return format(self)

    def __format__(self, sign: str) -> str:
        """Format the value and the interval.

        Args:
            sign: ``+`` shows the sign, as for differences.
        """
        text = f"{self.value:{sign}.4f}"
        if math.isnan(self.low):
            return text
        return f"{text} ({self.low:{sign}.4f} to {self.high:{sign}.4f})"


def evaluate(task: Task, label: np.ndarray, prediction: np.ndarray) -> dict[str, float]:
    """Return the metrics of predictions.

    Args:
        task: The task of the label.
        label: Numbers or class indices, shape (n,).
        prediction: Numbers, or probabilities of the positive class, shape (n,); for multiclass,
            class probabilities, shape (n, classes).

    Returns:
        ``accuracy`` and ``auc`` (multiclass: the mean of one class against the rest, over the
        present classes), or ``mse`` and ``r2``. Undefined metrics are omitted: the AUC of a
        single class, and the R2 of a constant label.
    """
    values = all_metrics(task, label, prediction)
    return {name: values[name] for name in EVALUATED[task] if name in values}


def all_metrics(task: Task, label: np.ndarray, prediction: np.ndarray) -> dict[str, float]:
    """Return the metrics of `evaluate`, and ``brier`` and ``log_loss``, or ``mae``.

    Args:
        task: The task of the label.
        label: Numbers or class indices, shape (n,).
        prediction: As for `evaluate`.
    """
    losses = row_losses(task, label, prediction)
    values = {name: float(loss.mean()) for name, loss in losses.items()}
    if (label == label[0]).all():
        return values
    if task == "regression":
        spread = float(np.var(label))
        return {**values, "r2": 1 - values["mse"] / spread if spread > 0 else 0.0}
    if task == "binary":
        return {**values, "auc": _auc(label == 1, prediction)}
    areas = [_auc(label == c, prediction[:, int(c)]) for c in np.unique(label)]
    return {**values, "auc": float(np.mean(areas))}


def row_losses(task: Task, label: np.ndarray, prediction: np.ndarray) -> dict[str, np.ndarray]:
    """Return the loss of each row by metric; the metric is their mean.

    Args:
        task: The task of the label.
        label: Numbers or class indices, shape (n,).
        prediction: As for `evaluate`.

    Returns:
        ``accuracy``, ``brier`` and ``log_loss``, or ``mse`` and ``mae``; shape (n,) each.
    """
    if task == "regression":
        error = label - prediction
        return {"mse": error**2, "mae": np.abs(error)}
    if task == "binary":
        hit = (prediction > 0.5) == (label == 1)
        chance = np.where(label == 1, prediction, 1 - prediction)
        brier = (label - prediction) ** 2
    else:
        at = label.astype(np.int64)
        hit = prediction.argmax(axis=1) == label
        chance = prediction[np.arange(len(label)), at]
        brier = ((prediction - np.eye(prediction.shape[1])[at]) ** 2).sum(axis=1)
    log_loss = -np.log(np.clip(chance, _MIN_PROBABILITY, 1.0))
    return {"accuracy": hit.astype(np.float64), "brier": brier, "log_loss": log_loss}


def main_metric(task: Task, noisy: bool = False) -> str:
    """Return the metric by which models are compared; greater is better except for ``mse``.

    Args:
        task: The task of the label.
        noisy: Metrics have noise, so there is only one.
    """
    if noisy:
        return "mse" if task == "regression" else "accuracy"
    return "r2" if task == "regression" else "auc"


def constant_prediction(task: Task, classes: int, train_label: np.ndarray, rows: int) -> np.ndarray:
    """Return a prediction without features: the training rows' mean or class shares.

    Args:
        task: The task of the label.
        classes: Number of classes.
        train_label: Labels of the training rows, shape (m,).
        rows: Number of predictions.
    """
    if task == "multiclass":
        shares = np.bincount(train_label.astype(np.int64), minlength=classes) / len(train_label)
        return np.tile(shares, (rows, 1))
    return np.full(rows, float(train_label.mean()))


def average_ranks(values: np.ndarray) -> np.ndarray:
    """Return ranks from 1; equal values get the mean of their ranks.

    Args:
        values: Shape (n,), without NaN.
    """
    return pl.Series(values).rank("average").to_numpy()


def trial_score(
    metric: str, parameters: Parameters, label: np.ndarray, prediction: np.ndarray
) -> float:
    """Return the score of a trial's predictions; greater is better.

    Args:
        metric: ``auc``, ``r2`` or ``loss``.
        parameters: Task and objective.
        label: Numbers or class indices, shape (n,).
        prediction: As for `evaluate`.
    """
    if metric == "loss":
        return -objective_loss(parameters, label, prediction)
    # With a single class all trials score alike, and the declared parameters win.
    return evaluate(parameters.task, label, prediction).get(metric, 0.0)


def objective_loss(parameters: Parameters, label: np.ndarray, prediction: np.ndarray) -> float:
    """Return the mean loss of a regression objective.

    The loss is the squared, absolute, Huber or pinball loss; for counts and amounts it is the
    deviance (Jorgensen, The Theory of Dispersion Models, 1997, chapter 2).

    Args:
        parameters: Objective and its parameters.
        label: Numbers, shape (n,).
        prediction: Numbers, shape (n,).
    """
    error = label - prediction
    distance = np.abs(error)
    own = parameters.own
    match parameters.objective:
        case "l1":
            loss = distance
        case "huber":
            width = float(own.get("alpha", own.get("huber_slope", _HUBER[parameters.trainer])))
            loss = np.where(distance <= width, error**2 / 2, width * (distance - width / 2))
        case "quantile":
            share = float(own.get("alpha", own.get("quantile_alpha", 0.5)))
            loss = np.maximum(share * error, (share - 1) * error)
        case "poisson" | "tweedie":
            power = 1.0
            if parameters.objective == "tweedie":
                power = float(own.get("tweedie_variance_power", 1.5))
            loss = _deviance(label, np.maximum(prediction, _MIN_PROBABILITY), power)
        case _:
            loss = error**2
    return float(loss.mean())


def threshold(cost_ratio: float | None) -> float:
    """Return the score above which a row is classified as positive.

    If scores are probabilities, this threshold minimises the expected cost.

    Args:
        cost_ratio: ``scoring.cost_ratio``.
    """
    return EVEN_ODDS if cost_ratio is None else 1 / (1 + cost_ratio)


def half_width(level: float, label: np.ndarray, prediction: np.ndarray) -> float | None:
    """Return half the width of a prediction interval.

    Split conformal prediction (Lei et al., JASA 2018): the half-width is the ceil((n + 1) level)-th
    of n absolute residuals of held-out rows. The coverage holds on average for any model, provided
    that new rows are exchangeable with the held-out ones and scored in the same mode.

    Args:
        level: Coverage, as a share.
        label: Numbers of held-out rows, shape (n,).
        prediction: Their predictions, shape (n,).

    Returns:
        The half-width; None if there are too few rows for a finite one.
    """
    place = math.ceil((len(label) + 1) * level)
    if place > len(label):
        return None
    return float(np.sort(np.abs(label - prediction))[place - 1])


def confusion(label: np.ndarray, score: np.ndarray, value: float) -> dict[str, float]:
    """Return the confusion matrix of a threshold, with precision and recall.

    Args:
        label: 0 or 1, shape (n,), n >= 1.
        score: Shape (n,).
        value: The threshold; rows above it are classified as positive.
    """
    flagged, positive = score > value, label == 1
    hits, alarms = int((flagged & positive).sum()), int((flagged & ~positive).sum())
    missed, passed = int((~flagged & positive).sum()), int((~flagged & ~positive).sum())
    return {
        "true_positive": hits,
        "false_positive": alarms,
        "false_negative": missed,
        "true_negative": passed,
        "share": (hits + alarms) / len(label),
        "precision": hits / (hits + alarms) if hits + alarms else 0.0,
        "recall": hits / (hits + missed) if hits + missed else 0.0,
    }


def _auc(positive: np.ndarray, score: np.ndarray) -> float:
    # The Mann-Whitney statistic, in which a tie counts half.
    n, m = int(positive.sum()), int((~positive).sum())
    ranks = average_ranks(score)
    return float((ranks[positive].sum() - n * (n + 1) / 2) / (n * m))


def _deviance(label: np.ndarray, mean: np.ndarray, power: float) -> np.ndarray:
    if power == 1.0:
        ratio = np.where(label > 0, label / mean, 1.0)
        return np.asarray(2 * (label * np.log(ratio) - (label - mean)))
    first = label ** (2 - power) / ((1 - power) * (2 - power))
    return np.asarray(
        2 * (first - label * mean ** (1 - power) / (1 - power) + mean ** (2 - power) / (2 - power))
    )
