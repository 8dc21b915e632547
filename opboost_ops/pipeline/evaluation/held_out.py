"""Evaluation of a new model on held-out rows: metrics (also by group) and the gate's decision."""

import hashlib
import json
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from opboost_ops.config.training import Scoring, ScoringMode
from opboost_ops.errors import ContractError
from opboost_ops.learning import calibration, metrics
from opboost_ops.learning.distribution import (
    MIN_PEOPLE,
    base_rates,
    bin_ends,
    count_scores,
    curves,
    held_out_distribution,
)
from opboost_ops.learning.intervals import Comparison
from opboost_ops.learning.metrics import Task, all_metrics
from opboost_ops.learning.private import sensitivity
from opboost_ops.learning.private.metrics import (
    difference_error,
    loss_sum,
    noisy_metric,
    noisy_sums,
)
from opboost_ops.pipeline.evaluation.baseline import Baseline
from opboost_ops.pipeline.evaluation.gate import (
    ALONE,
    REFERENCE,
    interval_gate,
    intervals_of,
    private_gate,
    unless_overtaken,
    unless_repeated,
)
from opboost_ops.pipeline.home import ResumeLog
from opboost_ops.pipeline.stage import Context, Outcome
from opboost_ops.pipeline.steps.open_rows import members_table
from opboost_ops.privacy.ledger.budgets import ModelCharge
from opboost_ops.quality.live import score_profile

#: Column of the scores with the group of each row, with ``overlap: left``.
COVERAGE = "coverage"

Predictions = Mapping[ScoringMode, np.ndarray]

#: Name of the document, and of the version's file, with calibration, threshold and interval.
SCORING = "scoring"

#: Bounds of the labels of two classes.
CLASSES = (0.0, 1.0)

#: By code: no feature holder has the person, some have, all have.
GROUPS = ("own", "partial", "complete")


def judge(
    context: Context,
    facts: Mapping[str, Any],
    truth: np.ndarray,
    model: str,
    predictions: Predictions,
    reference: np.ndarray | None,
    version: str | None,
    alone: Callable[[], Baseline],
) -> Outcome:
    """Evaluate a model on held-out rows, and decide whether it becomes champion.

    Args:
        context: Context of the party that has the rows.
        facts: Facts about the training frame.
        truth: Labels of the held-out rows, shape (n,).
        model: The model's text.
        predictions: The model's predictions by mode, including the scoring mode.
        reference: The reference's predictions in the scoring mode, if it can predict these rows.
        version: The reference version.
        alone: Trains the party's baseline. Not called for a private model: a second private model
            would be a second charge, and one without noise would defeat the first.
    """
    federation, task = context.federation, facts["task"]
    mode, private = federation.scoring.mode, federation.training.private
    new = f"federated_{mode}"
    compared = {f"federated_{name}": of for name, of in predictions.items()}
    if reference is not None:
        compared[REFERENCE] = reference
    evaluation: dict[str, Any] = {"rows": len(truth), "mode": mode}
    documents: dict[str, Any] = {}
    lasting: dict[str, Any] = {}
    charge, error = None, None
    if private is None:
        base = alone()
        compared = {ALONE: base.prediction, **compared}
        if base.chosen:
            evaluation["alone"] = base.chosen
        comparison = Comparison(task, truth, compared)
        result = {name: comparison.evaluated(name) for name in compared}
        # For a private model these would be exact functions of the rows.
        fitted = documents[SCORING] = scoring_of(federation.scoring, task, truth, predictions)
        scores = _calibrated_scores(fitted, predictions)
        shown = [name for name in compared if name == new or not name.startswith("federated_")]
        classes = [str(name) for name in facts["classes"]]
        evaluation |= {
            **intervals_of(comparison, new),
            "base": base_rates(task, truth, len(classes)),
            "curves": {name: curves(task, truth, compared[name]) for name in shown},
            "distributions": {
                name: held_out_distribution(task, classes, truth, of) for name, of in scores.items()
            },
        }
        lasting[score_profile(context.run)] = _profiles(task, scores)
        decision = interval_gate(context, task, comparison, version)
    else:
        if private.metrics_epsilon is not None:
            values, charge = noisy_metrics(context, task, truth, compared, private.metrics_epsilon)
            result = {name: values[name] for name in compared}
            label = context.declared.label
            assert label is not None
            error = difference_error(
                task, len(compared), private.metrics_epsilon, len(truth), label.bounds or CLASSES
            )
        else:
            result = {name: metrics.evaluate(task, truth, of) for name, of in compared.items()}
        decision = private_gate(context, task, result[new], result.get(REFERENCE), version, error)
    result.pop(REFERENCE, None)
    decision = unless_overtaken(context, unless_repeated(context, model, decision))
    evaluation["metrics"] = result
    if federation.keeps_all:
        codes = coverage(context, context.home.json("alignment")["train"], len(truth))
        of = {name: compared[name] for name in result}
        evaluation["coverage"] = metrics_by_group(task, truth, of, codes)
    return Outcome(
        tables={"predictions": _predictions_table(predictions)},
        documents={**documents, "evaluation": evaluation, "gate": decision},
        lasting=lasting,
        summary={"rows": len(truth), "mode": mode, "metrics": result, "gate": decision["why"]},
        model=charge,
    )


def _predictions_table(predictions: Predictions) -> pa.Table:
    """Return predictions by mode; a list per row for several classes."""
    columns = {}
    for mode, prediction in predictions.items():
        flat = pa.array(np.ravel(prediction))
        several = prediction.ndim == 2
        columns[mode] = (
            pa.FixedSizeListArray.from_arrays(flat, prediction.shape[1]) if several else flat
        )
    return pa.table(columns)


def scoring_of(
    scoring: Scoring, task: Task, truth: np.ndarray, predictions: Mapping[ScoringMode, np.ndarray]
) -> dict[str, Any]:
    """Fit how the version's scores are made, on the held-out rows of each mode separately.

    Args:
        scoring: The declared scoring.
        task: The label's task.
        truth: Labels of the held-out rows, shape (n,).
        predictions: Predictions of these rows, by mode.

    Returns:
        By mode ``calibration`` with its out-of-fold figures, ``threshold`` with the confusion
        counts of the held-out rows, and ``interval``. Each is present only if declared; the
        threshold defaults to 0.5.
    """
    return {mode: _scoring_in(scoring, task, truth, of) for mode, of in predictions.items()}


def _profiles(task: Task, by_mode: Predictions) -> dict[str, Any]:
    """Return histogram edges for new scores and the held-out counts in them; stored at home."""
    profiles: dict[str, Any] = {}
    for mode, scores in by_mode.items():
        flat = scores.max(axis=1) if scores.ndim == 2 else scores
        if len(flat) < MIN_PEOPLE:
            continue
        ends = bin_ends(task, flat)
        profiles[mode] = {"edges": ends.tolist(), "counts": count_scores(flat, ends).tolist()}
    return profiles


def _calibrated_scores(
    fitted: Mapping[str, Mapping[str, Any]], predictions: Predictions
) -> dict[ScoringMode, np.ndarray]:
    """Apply the version's calibration to predictions, where it has one."""
    scores: dict[ScoringMode, np.ndarray] = {}
    for mode, prediction in predictions.items():
        calibrator = fitted.get(mode, {}).get("calibration")
        scores[mode] = (
            prediction if calibrator is None else calibration.apply(calibrator, prediction)
        )
    return scores


def _scoring_in(
    scoring: Scoring, task: Task, truth: np.ndarray, prediction: np.ndarray
) -> dict[str, Any]:
    content: dict[str, Any] = {"rows": len(truth)}
    if task == "regression":
        if scoring.interval is not None:
            half = metrics.half_width(scoring.interval, truth, prediction)
            content["interval"] = {"level": scoring.interval, "half_width": half}
        return content
    if task == "multiclass":
        return content
    score, honest = prediction, prediction
    if scoring.calibration is not None:
        fitted = calibration.fit(scoring.calibration, truth, prediction)
        score = calibration.apply(fitted, prediction)
        honest = calibration.out_of_fold(scoring.calibration, truth, prediction)
        names = ("brier", "log_loss")
        figures = {
            name: {k: v for k, v in all_metrics(task, truth, of).items() if k in names}
            for name, of in (("before", prediction), ("after", honest))
        }
        content["calibration"] = fitted | {"figures": figures}
    value = metrics.threshold(scoring.cost_ratio)
    confusion = metrics.confusion(truth, score, value)
    content["threshold"] = {"value": value, "confusion": confusion}
    return content


def noisy_metrics(
    context: Context,
    task: Task,
    truth: np.ndarray,
    predictions: Mapping[str, np.ndarray],
    epsilon: float,
) -> tuple[dict[str, dict[str, float]], ModelCharge]:
    """Evaluate predictions of the same rows, all together at the cost of one epsilon.

    Draws are written to disk before they are used, so that a retry draws nothing again.

    Args:
        context: The label holder's context; in horizontal learning any party's.
        task: ``binary`` or ``regression``.
        truth: Labels, shape (n,).
        predictions: Predictions by model and mode, shape (n,) each.
        epsilon: Epsilon of all metrics together.

    Returns:
        Metrics by the predictions' names, and their charge.

    Raises:
        ContractError: The run has drawn metrics of other predictions.
    """
    label = context.declared.label
    assert label is not None
    bounds = label.bounds or CLASSES
    digest = hashlib.sha256(repr((sorted(predictions), task, bounds, epsilon)).encode())
    for name in sorted(predictions):
        digest.update(np.ascontiguousarray(predictions[name]).tobytes())
    digest.update(truth.tobytes())
    memory = ResumeLog(context.home, "drawn_metrics.jsonl")
    if not memory.lines():
        sums = [loss_sum(task, truth, predictions[name], bounds) for name in sorted(predictions)]
        drawn = noisy_sums(task, sums, sensitivity.exact_fraction(epsilon))
        memory.append(json.dumps({"of": digest.hexdigest(), "sums": drawn}).encode())
    line = json.loads(memory.lines()[0])
    if line["of"] != digest.hexdigest():
        raise ContractError(
            "This run evaluated other predictions, and its noise is final.",
            "Trigger a new run.",
        )
    values = {
        name: noisy_metric(task, total, len(truth), bounds)
        for name, total in zip(sorted(predictions), line["sums"], strict=True)
    }
    return values, ModelCharge(epsilon, memory.name(), len(truth), "metrics")


def coverage(context: Context, begin: int, count: int) -> np.ndarray:
    """Return the codes of `GROUPS` of rows in the common order, int64, shape (count,).

    Args:
        context: The label holder's context, of a run with ``overlap: left``.
        begin: The first row.
        count: Number of rows.
    """
    holders = context.federation.feature_holders
    having = np.zeros(count, dtype=np.int64)
    for holder in holders:
        there = context.home.table(members_table(holder)).column("there").slice(begin, count)
        having += there.to_numpy()
    return group_codes(having, len(holders))


def group_codes(having: np.ndarray, holders: int) -> np.ndarray:
    """Return the codes of `GROUPS`, int64, shape (n,).

    Args:
        having: Number of feature holders that have each person, shape (n,).
        holders: Number of feature holders.
    """
    return np.where(having == holders, 2, np.minimum(having, 1)).astype(np.int64)


def group_names(codes: np.ndarray) -> pa.Array:
    """Return the names of `GROUPS` by code, shape (n,)."""
    return pa.DictionaryArray.from_arrays(codes, pa.array(GROUPS)).cast(pa.string())


def metrics_by_group(
    task: Task, truth: np.ndarray, predictions: Mapping[str, np.ndarray], codes: np.ndarray
) -> dict[str, dict[str, Any]]:
    """Return metrics of complete, partial and own rows separately.

    Args:
        task: The label's task.
        truth: Labels of the held-out rows, shape (n,).
        predictions: Predictions of these rows, by model.
        codes: Group codes of these rows, see `coverage`.

    Returns:
        By name of each non-empty group: ``rows``, and ``metrics`` by model, empty if all of its
        rows have one label.
    """
    groups: dict[str, dict[str, Any]] = {}
    for code in reversed(range(len(GROUPS))):
        here = codes == code
        if not here.any():
            continue
        several = len(np.unique(truth[here])) > 1
        groups[GROUPS[code]] = {
            "rows": int(here.sum()),
            "metrics": {
                model: metrics.evaluate(task, truth[here], of[here])
                for model, of in predictions.items()
                if several
            },
        }
    return groups
