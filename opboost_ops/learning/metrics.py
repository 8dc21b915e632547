"""Metrics of held-out rows, what an objective minimises, and from which score a row is positive."""

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Literal

import numpy as np
import polars as pl

from opboost_ops.learning.boosters.backend import Parameters

Task = Literal["binary", "multiclass", "regression"]

#: Metrics of which less is better.
LOSSES = ("mse", "mae", "brier", "log_loss")

#: Metrics that `evaluate` gives.
EVALUATED: Mapping[Task, tuple[str, str]] = {
    "binary": ("accuracy", "auc"),
    "multiclass": ("accuracy", "auc"),
    "regression": ("mse", "r2"),
}

#: No prediction is surer than this in a log loss.
_LEAST = 1e-15

#: LightGBM's default width of the square part of Huber's loss, and XGBoost's.
_HUBER = {"lightgbm": 0.9, "xgboost": 1.0}

#: Without a ratio of costs the likelier of two classes is chosen.
LIKELIER = 0.5


@dataclass(frozen=True)
class Interval:
    """A metric and where it may lie.

    Attributes:
        value: On the rows as they are.
        low: Lower end of the 95 % interval; NaN where there is none.
        high: Upper end.
    """

    value: float
    low: float = math.nan
    high: float = math.nan

    def document(self) -> dict[str, float]:
        """As a JSON value."""
        return asdict(self)

    def __str__(self) -> str:
        return format(self)

    def __format__(self, sign: str) -> str:
        """In words.

        Args:
            sign: A plus for differences.
        """
        text = f"{self.value:{sign}.4f}"
        if math.isnan(self.low):
            return text
        return f"{text} ({self.low:{sign}.4f} to {self.high:{sign}.4f})"


def evaluate(task: Task, label: np.ndarray, prediction: np.ndarray) -> dict[str, float]:
    """Score predictions.

    Args:
        task: What was learnt.
        label: Numbers or class indices, shape (n,).
        prediction: Numbers or positive probabilities, shape (n,); class probabilities, shape
            (n, classes), for multiclass.

    Returns:
        ``accuracy`` and ``auc`` (multiclass: mean of one class against the rest, over the
        classes present), or ``mse`` and ``r2``; without those that are undefined: the AUC of
        one class, the R2 of one number.
    """
    values = all_metrics(task, label, prediction)
    return {name: values[name] for name in EVALUATED[task] if name in values}


def all_metrics(task: Task, label: np.ndarray, prediction: np.ndarray) -> dict[str, float]:
    """`evaluate` with ``brier`` and ``log_loss``, or ``mae``.

    Args:
        task: What was learnt.
        label: Numbers or class indices, shape (n,).
        prediction: As `evaluate` takes it.
    """
    losses = row_losses(task, label, prediction)
    values = {name: float(of.mean()) for name, of in losses.items()}
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
    """By metric, what each row adds to it: the metric is their mean.

    Args:
        task: What was learnt.
        label: Numbers or class indices, shape (n,).
        prediction: As `evaluate` takes it.

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
    log_loss = -np.log(np.clip(chance, _LEAST, 1.0))
    return {"accuracy": hit.astype(np.float64), "brier": brier, "log_loss": log_loss}


def main_metric(task: Task, noisy: bool = False) -> str:
    """The metric by which models of a task are compared; greater is better, but for ``mse``.

    Args:
        task: What is learnt.
        noisy: Whether metrics have noise, so that there is but one.
    """
    if noisy:
        return "mse" if task == "regression" else "accuracy"
    return "r2" if task == "regression" else "auc"


def constant_prediction(task: Task, classes: int, train_label: np.ndarray, rows: int) -> np.ndarray:
    """A prediction without any feature: the training rows' mean or class shares.

    Args:
        task: What is learnt.
        classes: How many classes.
        train_label: Labels of the training rows, shape (m,).
        rows: How many predictions.
    """
    if task == "multiclass":
        shares = np.bincount(train_label.astype(np.int64), minlength=classes) / len(train_label)
        return np.tile(shares, (rows, 1))
    return np.full(rows, float(train_label.mean()))


def _auc(positive: np.ndarray, score: np.ndarray) -> float:
    # The Mann-Whitney statistic; ties count half.
    n, m = int(positive.sum()), int((~positive).sum())
    ranks = average_ranks(score)
    return float((ranks[positive].sum() - n * (n + 1) / 2) / (n * m))


def average_ranks(values: np.ndarray) -> np.ndarray:
    """Ranks of numbers from 1; equal ones share the mean of theirs.

    Args:
        values: Shape (n,), none NaN.
    """
    return pl.Series(values).rank("average").to_numpy()


def trial_score(
    metric: str, parameters: Parameters, label: np.ndarray, prediction: np.ndarray
) -> float:
    """How good predictions are, so that greater is better.

    Args:
        metric: ``auc``, ``r2`` or ``loss``.
        parameters: Task and objective.
        label: Numbers or class indices, shape (n,).
        prediction: As of `metrics.evaluate`.
    """
    if metric == "loss":
        return -own_loss(parameters, label, prediction)
    # On rows of one class all are alike, and the declared parameters win.
    return evaluate(parameters.task, label, prediction).get(metric, 0.0)


def own_loss(parameters: Parameters, label: np.ndarray, prediction: np.ndarray) -> float:
    """The mean over rows of what an objective of regression minimises.

    Squared or absolute error, Huber's and the pinball loss; of counts and amounts the
    deviance of their law (Jorgensen, The Theory of Dispersion Models, 1997, chapter 2).

    Args:
        parameters: Objective and its parameters.
        label: Numbers, shape (n,).
        prediction: Likewise.
    """
    off = label - prediction
    far = np.abs(off)
    own = parameters.own
    match parameters.objective:
        case "l1":
            loss = far
        case "huber":
            width = float(own.get("alpha", own.get("huber_slope", _HUBER[parameters.trainer])))
            loss = np.where(far <= width, off**2 / 2, width * (far - width / 2))
        case "quantile":
            share = float(own.get("alpha", own.get("quantile_alpha", 0.5)))
            loss = np.maximum(share * off, (share - 1) * off)
        case "poisson" | "tweedie":
            power = 1.0
            if parameters.objective == "tweedie":
                power = float(own.get("tweedie_variance_power", 1.5))
            loss = _deviance(label, np.maximum(prediction, _LEAST), power)
        case _:
            loss = off**2
    return float(loss.mean())


def _deviance(label: np.ndarray, mean: np.ndarray, power: float) -> np.ndarray:
    if power == 1.0:
        ratio = np.where(label > 0, label / mean, 1.0)
        return np.asarray(2 * (label * np.log(ratio) - (label - mean)))
    first = label ** (2 - power) / ((1 - power) * (2 - power))
    return np.asarray(
        2 * (first - label * mean ** (1 - power) / (1 - power) + mean ** (2 - power) / (2 - power))
    )


def threshold(cost_ratio: float | None) -> float:
    """The score above which a row counts as positive.

    Of scores that are probabilities, it has the least expected cost.

    Args:
        cost_ratio: ``scoring.cost_ratio``.
    """
    return LIKELIER if cost_ratio is None else 1 / (1 + cost_ratio)


def half_width(level: float, label: np.ndarray, prediction: np.ndarray) -> float | None:
    """Half the width of an interval that holds a new row's number in a share of cases.

    Split conformal prediction (Lei et al., JASA 2018): of n absolute residuals of rows that were
    not trained on, the ceil((n + 1) level)-th. It holds on average over such rows, whatever the
    model, as long as new rows are like them and come in the same mode of scoring.

    Args:
        level: The share.
        label: Numbers of held-out rows, shape (n,).
        prediction: Of these, shape (n,).

    Returns:
        None where there are too few rows for any finite width.
    """
    place = math.ceil((len(label) + 1) * level)
    if place > len(label):
        return None
    return float(np.sort(np.abs(label - prediction))[place - 1])


def confusion(label: np.ndarray, score: np.ndarray, value: float) -> dict[str, float]:
    """Counts and shares of the rows above a threshold.

    Args:
        label: 0 or 1, shape (n,), n >= 1.
        score: Shape (n,).
        value: The threshold.
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
