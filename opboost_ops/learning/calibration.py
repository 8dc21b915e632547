"""Calibration of scores to probabilities on held-out rows: isotonic regression or Platt scaling.

Isotonic: Zadrozny and Elkan, KDD 2002, by SciPy's pool of adjacent violators. Platt: "Probabilistic
outputs for support vector machines", 1999, on log odds, with the targets (n + 1) / (n + 2) and
1 / (m + 2).
"""

from collections.abc import Mapping
from typing import Any, Literal

import numpy as np
from scipy.special import expit

from opboost_ops.domain import greatest
from opboost_ops.errors import ContractError

Method = Literal["isotonic", "platt"]

#: Scores are clipped to this distance from 0 and 1 before their log odds are taken.
_MIN_ODDS = 1e-12
_FOLDS = 5


def fit(method: Method, label: np.ndarray, score: np.ndarray) -> dict[str, Any]:
    """Fit a map from score to probability, as a JSON value.

    Args:
        method: ``isotonic`` or ``platt``.
        label: 0 or 1, shape (n,), n >= 1.
        score: In [0, 1], shape (n,).
    """
    if method == "platt":
        slope, intercept = _fit_platt(label, _log_odds(score))
        return {"method": method, "slope": slope, "intercept": intercept}
    # The import takes half a second, which runs without calibration avoid.
    from scipy.optimize import isotonic_regression

    # Merge equal scores into one point; otherwise their order would matter.
    points, at = np.unique(score, return_inverse=True)
    rows = np.bincount(at).astype(np.float64)
    means = np.bincount(at, weights=label) / rows
    values = isotonic_regression(means, weights=rows).x
    # Keep only the ends of each flat piece.
    corners = np.r_[True, (np.diff(values[:-1]) != 0) | (np.diff(values[1:]) != 0), True]
    corners = corners[: len(values)]
    return {
        "method": method,
        "scores": points[corners].tolist(),
        "values": values[corners].tolist(),
    }


def apply(fitted: Mapping[str, Any], score: np.ndarray) -> np.ndarray:
    """Return the probabilities of scores.

    Args:
        fitted: From `fit`.
        score: In [0, 1], shape (n,).
    """
    if fitted["method"] == "platt":
        raw = fitted["slope"] * _log_odds(score) + fitted["intercept"]
        return np.asarray(expit(raw))
    return np.asarray(np.interp(score, fitted["scores"], fitted["values"]))


def highest_score(fitted: Mapping[str, Any], limit: float) -> float:
    """Return the highest score whose probability is at most a limit; -1 if there is none.

    Args:
        fitted: From `fit`.
        limit: The greatest probability.

    Raises:
        ContractError: Probabilities decrease with the score.
    """
    if fitted.get("slope", 1.0) <= 0:
        raise ContractError(
            "Platt calibration reversed the order of this model's scores.",
            "Declare `scoring.calibration: isotonic`, or remove it, and train again.",
        )

    def fits(score: float) -> bool:
        return bool(apply(fitted, np.array([score]))[0] <= limit)

    return greatest(fits, 0.0, 1.0) if fits(0.0) else -1.0


def out_of_fold(method: Method, label: np.ndarray, score: np.ndarray) -> np.ndarray:
    """Calibrate each row by a fit to the other folds, to measure calibration.

    Folds depend on a hash of the row's position, and rows are ordered by keyed digests. Folds by
    label or score would overstate the gain for tied scores.

    Args:
        method: ``isotonic`` or ``platt``.
        label: 0 or 1, shape (n,).
        score: In [0, 1], shape (n,).
    """
    if len(label) < 2:
        return score
    fold = _shuffled_positions(len(score)) % min(_FOLDS, len(score))
    calibrated = np.empty(len(score))
    for number in np.unique(fold):
        here = fold == number
        calibrated[here] = apply(fit(method, label[~here], score[~here]), score[here])
    return calibrated


def _shuffled_positions(rows: int) -> np.ndarray:
    """Return a permutation unrelated to the order of rows, by Fibonacci hashing (Knuth, 6.4)."""
    hashes = np.arange(1, rows + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    return np.argsort(np.argsort(hashes ^ (hashes >> np.uint64(29)), kind="stable"), kind="stable")


def _log_odds(score: np.ndarray) -> np.ndarray:
    clipped = np.clip(score, _MIN_ODDS, 1 - _MIN_ODDS)
    return np.asarray(np.log(clipped / (1 - clipped)))


def _fit_platt(label: np.ndarray, raw: np.ndarray) -> tuple[float, float]:
    from scipy.optimize import minimize

    positive = float(label.sum())
    negative = len(label) - positive
    target = np.where(label == 1, (positive + 1) / (positive + 2), 1 / (negative + 2))
    # Standardise: the optimiser fails if scores are far from zero or almost equal.
    middle, width = float(raw.mean()), float(raw.std()) if np.ptp(raw) else 1.0
    columns = np.column_stack([(raw - middle) / width, np.ones_like(raw)])

    def loss(weights: np.ndarray) -> tuple[float, np.ndarray]:
        logits = columns @ weights
        total = float((np.logaddexp(0, logits) - target * logits).sum())
        return total, columns.T @ (expit(logits) - target)

    solution = minimize(loss, np.array([width, middle]), jac=True, method="BFGS").x
    slope = float(solution[0]) / width
    return slope, float(solution[1]) - slope * middle
