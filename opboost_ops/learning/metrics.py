"""Metrics of held-out rows."""

from collections.abc import Mapping
from typing import Literal

import numpy as np

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
    found = all_metrics(task, label, prediction)
    return {name: found[name] for name in EVALUATED[task] if name in found}


def all_metrics(task: Task, label: np.ndarray, prediction: np.ndarray) -> dict[str, float]:
    """`evaluate` with ``brier`` and ``log_loss``, or ``mae``.

    Args:
        task: What was learnt.
        label: Numbers or class indices, shape (n,).
        prediction: As `evaluate` takes it.
    """
    losses = row_losses(task, label, prediction)
    found = {name: float(of.mean()) for name, of in losses.items()}
    if (label == label[0]).all():
        return found
    if task == "regression":
        spread = float(np.var(label))
        return {**found, "r2": 1 - found["mse"] / spread if spread > 0 else 0.0}
    if task == "binary":
        return {**found, "auc": _auc(label == 1, prediction)}
    areas = [_auc(label == c, prediction[:, int(c)]) for c in np.unique(label)]
    return {**found, "auc": float(np.mean(areas))}


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
        given = np.where(label == 1, prediction, 1 - prediction)
        brier = (label - prediction) ** 2
    else:
        at = label.astype(np.int64)
        hit = prediction.argmax(axis=1) == label
        given = prediction[np.arange(len(label)), at]
        brier = ((prediction - np.eye(prediction.shape[1])[at]) ** 2).sum(axis=1)
    log_loss = -np.log(np.clip(given, _LEAST, 1.0))
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
    """What can be predicted without any feature: the training rows' mean or class shares.

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
    # Loading it takes half a second, which most processes need not spend.
    from scipy.stats import rankdata

    ranks = rankdata(score)
    return float((ranks[positive].sum() - n * (n + 1) / 2) / (n * m))
