"""Scores of clear rows from a model that learnt on randomised ones: the attenuation undone.

Noise in the features flattens what a booster learns from them: on rows that pass the same noise
its scores are right, on clear rows (routed or local scoring) they lie too near the mean. By how
much can be told from the channel, which is known exactly, and from second moments of what was
released: no clear row is needed. The method is this project's; measurement error models call its
linear case the correction for attenuation (C. Spearman, 1904).

The others' part of the score is taken as linear in their columns. With released values Y_j, known
means m_j(x) = E[Y_j | x] and labels L, independence of the noise gives Cov(m_j, L) = Cov(Y_j, L),
Cov(m_i, m_j) = Cov(Y_i, Y_j), and Var(m_j) = Var(Y_j) - E[Var(Y_j | x)]. The factor is the slope of
the least squares line of L on the score of clear rows.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from opboost_ops.boosting import trainer
from opboost_ops.boosting.frame import Frame, Parameters
from opboost_ops.boosting.redraw import shares
from opboost_ops.errors import ContractError
from opboost_ops.mechanisms.channel import Channel

#: No factor is greater: beyond it the release told next to nothing.
MOST = 50.0


@dataclass(frozen=True)
class Moments:
    """Of one fold's rows, which the model did not learn from.

    Attributes:
        covariance: Of label and the others' part of the score of clear rows.
        variance: Of the latter.
        covariance_error, variance_error: Squared standard errors.
    """

    covariance: float
    variance: float
    covariance_error: float
    variance_error: float


def attenuation(
    frame: Frame,
    label: np.ndarray,
    parameters: Parameters,
    released: Mapping[str, np.ndarray],
    channels: Mapping[str, Channel],
) -> float:
    """By what the steps of a model on others' features are to be multiplied for clear rows.

    Two models are trained for it, each on every other row; the other rows give the moments.

    Args:
        frame: Training rows.
        label: Numbers or classes 0 and 1, shape (n,).
        parameters: How the model itself is trained.
        released: Released values of each ranked feature, shape (n,).
        channels: What released them.

    Returns:
        At least 1, and 1 where the moments cannot tell: the estimate with its covariance one
        standard error lower and its variance two higher, since too great a factor costs more
        than too small a one.

    Raises:
        ContractError: The task has several classes.
    """
    if parameters.task == "multiclass":
        raise ContractError("Attenuation is estimated for binary labels and numbers.")
    rows = np.arange(len(label))
    folds = []
    for fold in (0, 1):
        learnt, kept = rows % 2 == fold, rows % 2 != fold
        part = replace(frame, matrix=np.asfortranarray(frame.matrix[learnt]))
        text = trainer.train(part, label[learnt], parameters)
        columns = {name: values[kept] for name, values in released.items()}
        folds.append(_moments(text, frame, kept, label[kept], parameters.task, columns, channels))
    return factor(folds)


def factor(folds: Sequence[Moments]) -> float:
    """The factor that folds tell, as `attenuation` returns it."""
    n = len(folds)
    covariance = sum(f.covariance for f in folds) / n
    variance = sum(f.variance for f in folds) / n
    less = np.sqrt(sum(f.covariance_error for f in folds)) / n
    more = np.sqrt(sum(f.variance_error for f in folds)) / n
    low = (covariance - less) / max(max(variance, 0.0) + 2 * more, np.finfo(float).tiny)
    return float(np.clip(low, 1.0, MOST))


def calibrated(text: str, names: Sequence[str], by: float) -> str:
    """The model for clear rows.

    Args:
        text: A model.
        names: Others' features.
        by: The factor.

    Returns:
        The same trees; along each path, what a split on one of the features adds to the mean of
        the node above it is multiplied.
    """
    return trainer.model_of(text).scale_steps(dict.fromkeys(names, by)).text()


def _moments(
    text: str,
    frame: Frame,
    kept: np.ndarray,
    label: np.ndarray,
    task: str,
    released: Mapping[str, np.ndarray],
    channels: Mapping[str, Channel],
) -> Moments:
    matrix = np.asfortranarray(frame.matrix[kept])
    parts = trainer.contributions(text, matrix)[:, 0, :]
    is_ranked = np.array([name in frame.ranked for name in frame.names])
    own, others = parts[:, ~is_ranked].sum(axis=1), parts[:, is_ranked].sum(axis=1)
    target = label.astype(np.float64)
    if task == "binary":
        # One Newton step of the log odds, whose curvature is taken as the same for all rows.
        chance = trainer.predict(text, matrix)
        target = own + others + (target - chance) / np.mean(chance * (1 - chance))
    columns = np.column_stack([released[name] for name in frame.ranked]).astype(np.float64)
    columns -= columns.mean(axis=0)
    in_released = np.linalg.lstsq(columns, others - others.mean(), rcond=None)[0]
    slopes, noises = np.transpose([_slope(channels[n], released[n]) for n in frame.ranked])
    weights = in_released / slopes
    score, target = columns @ weights, target - target.mean()
    own = own - own.mean()
    if (spread := own @ own) > 0:
        # The label holder's own part is clear: what it explains is taken out of both.
        target = target - (own @ target) / spread * own
        score = score - (own @ score) / spread * own
    products, squares = score * target, score**2
    return Moments(
        covariance=float(products.mean()),
        variance=float(squares.mean() - (weights**2) @ noises),
        covariance_error=float(products.var() / len(label)),
        variance_error=float(squares.var() / len(label)),
    )


def _slope(channel: Channel, released: np.ndarray) -> tuple[float, float]:
    """The slope of E[Y | x] over the likeliest inputs, and the mean of Var(Y | x)."""
    law, outputs = channel.probabilities(), channel.outputs.astype(np.float64)
    inputs = channel.inputs.astype(np.float64)
    counts = np.bincount(np.searchsorted(outputs, released), minlength=len(outputs))
    share = shares(counts, law)
    mean = law @ outputs
    noise = law @ outputs**2 - mean**2
    apart = inputs - share @ inputs
    spread = float(share @ apart**2)
    slope = float(share @ (apart * mean)) / spread if spread > 0 else 1.0
    return slope, float(share @ noise)
