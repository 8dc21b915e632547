"""What a version keeps of its held-out rows: intervals and curves, and how its scores are made."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from opboost_ops.boosting import calibration, decisions
from opboost_ops.boosting.curves import base_rates, curves
from opboost_ops.boosting.distribution import LEAST, grid, held_out_distribution, on_grid
from opboost_ops.boosting.intervals import Comparison
from opboost_ops.boosting.metrics import Task, all_metrics
from opboost_ops.config.scoring import Scoring, ScoringMode
from opboost_ops.stages.interval_gate import intervals_of

#: Name of the document, and of the version's file.
SCORING = "scoring"


def pictures_of(
    task: Task,
    classes: Sequence[str | int],
    truth: np.ndarray,
    compared: Mapping[str, np.ndarray],
    comparison: Comparison,
    new: str,
) -> dict[str, Any]:
    """Intervals and curves, for `evaluation.json`, which stays with the party that holds the rows.

    Args:
        task: What was learnt.
        classes: In order.
        truth: Labels of the held-out rows, shape (n,).
        compared: Predictions by model.
        comparison: Of the same.
        new: The new model's name among them, in the mode of scoring.

    Returns:
        ``intervals`` and ``gains``, see `intervals_of`; ``base`` rates; ``curves`` by model.
    """
    shown = [name for name in compared if name == new or not name.startswith("federated_")]
    return {
        **intervals_of(comparison, new),
        "base": base_rates(task, truth, len(classes)),
        "curves": {name: curves(task, truth, compared[name]) for name in shown},
    }


def scoring_of(
    scoring: Scoring, task: Task, truth: np.ndarray, predictions: Mapping[ScoringMode, np.ndarray]
) -> dict[str, Any]:
    """How the version's scores are made, by the held-out rows in each mode by itself.

    Args:
        scoring: As declared.
        task: What was learnt.
        truth: Labels of the held-out rows, shape (n,).
        predictions: For these, by mode.

    Returns:
        By mode ``calibration`` with its figures by rows of other folds; ``threshold`` with what it
        does to the held-out rows; ``interval``. Each only where it is declared, or a threshold of
        0.5.
    """
    return {mode: _scoring_in(scoring, task, truth, of) for mode, of in predictions.items()}


def distributions_of(
    facts: Mapping[str, Any],
    fitted: Mapping[str, Mapping[str, Any]],
    truth: np.ndarray,
    predictions: Mapping[ScoringMode, np.ndarray],
) -> dict[str, Any]:
    """How the held-out rows' scores are distributed, as files of scores have them.

    Args:
        facts: ``task`` and ``classes`` of the label.
        fitted: From `scoring_of`: a calibrated score is what people see.
        truth: Labels of the held-out rows, shape (n,).
        predictions: For these, by mode.

    Returns:
        By mode, see `held_out_distribution`.
    """
    names = [str(name) for name in facts["classes"]]
    return {
        mode: held_out_distribution(facts["task"], names, truth, scores)
        for mode, scores in _scores(fitted, predictions).items()
    }


def score_profiles(
    task: Task,
    fitted: Mapping[str, Mapping[str, Any]],
    predictions: Mapping[ScoringMode, np.ndarray],
) -> dict[str, Any]:
    """The bins in which new scores are counted, and the held-out rows in them; for the home alone.

    Args:
        task: What was learnt.
        fitted: From `scoring_of`.
        predictions: For the held-out rows, by mode.

    Returns:
        By mode ``edges`` and ``counts``; nothing of fewer than `LEAST` rows.
    """
    found: dict[str, Any] = {}
    for mode, scores in _scores(fitted, predictions).items():
        flat = scores.max(axis=1) if scores.ndim == 2 else scores
        if len(flat) < LEAST:
            continue
        ends = grid(task, flat)
        found[mode] = {"edges": ends.tolist(), "counts": on_grid(flat, ends).tolist()}
    return found


def _scores(
    fitted: Mapping[str, Mapping[str, Any]], predictions: Mapping[ScoringMode, np.ndarray]
) -> dict[str, np.ndarray]:
    """Predictions as people see them: calibrated, where the version calibrates."""
    found: dict[str, np.ndarray] = {}
    for mode, prediction in predictions.items():
        known = fitted.get(mode, {}).get("calibration")
        found[mode] = prediction if known is None else calibration.apply(known, prediction)
    return found


def _scoring_in(
    scoring: Scoring, task: Task, truth: np.ndarray, prediction: np.ndarray
) -> dict[str, Any]:
    found: dict[str, Any] = {"rows": len(truth)}
    if task == "regression":
        if scoring.interval is not None:
            half = decisions.half_width(scoring.interval, truth, prediction)
            found["interval"] = {"level": scoring.interval, "half_width": half}
        return found
    if task == "multiclass":
        return found
    score, honest = prediction, prediction
    if scoring.calibration is not None:
        fitted = calibration.fit(scoring.calibration, truth, prediction)
        score = calibration.apply(fitted, prediction)
        honest = calibration.out_of_fold(scoring.calibration, truth, prediction)
        kept = ("brier", "log_loss")
        figures = {
            name: {k: v for k, v in all_metrics(task, truth, of).items() if k in kept}
            for name, of in (("before", prediction), ("after", honest))
        }
        found["calibration"] = fitted | {"figures": figures}
    rule = scoring.threshold
    chosen: dict[str, Any] = {"value": decisions.LIKELIER, "rule": None, "reached": True}
    if rule is not None:
        chosen = decisions.threshold_of(rule, truth, score)
    confusion = decisions.confusion(truth, score, chosen["value"])
    found["threshold"] = chosen | {"confusion": confusion}
    return found
