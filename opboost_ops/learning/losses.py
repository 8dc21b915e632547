"""What an objective minimises, as a number on rows: by it trials of tuning may be compared."""

import numpy as np

from opboost_ops.learning import metrics
from opboost_ops.learning.boosters.frame import Parameters

#: No expected count is taken for less.
_LEAST = 1e-15

#: LightGBM's default width of the square part of Huber's loss, and XGBoost's.
_HUBER = {"lightgbm": 0.9, "xgboost": 1.0}


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
    return metrics.evaluate(parameters.task, label, prediction).get(metric, 0.0)


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
