"""Arrow: model and held-out rows -> metrics, each naming its mode."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from opboost_ops.boosting import metrics
from opboost_ops.boosting.intervals import Comparison
from opboost_ops.boosting.trainer import model_of, predict
from opboost_ops.config.federation import ScoringMode
from opboost_ops.exchange.encoding import integers
from opboost_ops.models.live import score_profile
from opboost_ops.stages.assemble import LABEL, frame_of
from opboost_ops.stages.baseline import baseline
from opboost_ops.stages.coverage import coverage, metrics_by_group
from opboost_ops.stages.gate import comparable_reference, gate, present_champion
from opboost_ops.stages.held_out import (
    SCORING,
    distributions_of,
    pictures_of,
    score_profiles,
    scoring_of,
)
from opboost_ops.stages.interval_gate import ALONE, REFERENCE, interval_gate
from opboost_ops.stages.materialise import materialised_model
from opboost_ops.stages.noisy_metrics import noisy_metrics
from opboost_ops.stages.other_columns import other_columns
from opboost_ops.stages.reference import interval_rule
from opboost_ops.stages.repeated import unless_repeated
from opboost_ops.stages.stage import Context, Outcome


def evaluate(context: Context) -> Outcome:
    """Evaluate in every declared mode, beside a model of the label holder's columns alone.

    Mode ``desensitised`` is always among them: its rows were sealed with the training rows.
    """
    facts = context.home.json("frame")
    holdout = context.home.table("holdout_frame")
    truth = np.asarray(holdout.column(LABEL).to_numpy())
    model = materialised_model(context)
    task, mode = facts["task"], context.federation.scoring.mode
    by_interval = interval_rule(context.federation)
    version = context.reference if by_interval else present_champion(context)
    reference = comparable_reference(context, facts, version)
    used = set(model_of(model).numeric_splits())
    if reference is not None:
        used |= set(model_of(reference).numeric_splits())
    frames: dict[ScoringMode, np.ndarray] = {
        name: _frame(context, name, facts, holdout, used)
        for name in dict.fromkeys((*context.federation.scoring.modes, "desensitised"))
    }
    predictions = {name: predict(model, matrix) for name, matrix in frames.items()}
    compared = {f"federated_{name}": prediction for name, prediction in predictions.items()}
    if reference is not None:
        # Of unchanged tables it is the same model.
        same = reference == model
        compared[REFERENCE] = predictions[mode] if same else predict(reference, frames[mode])
    evaluation: dict[str, Any] = {"rows": len(truth), "mode": mode}
    charge = None
    private = context.federation.training.private
    # A second private model would be a second charge; one without noise would undo the first.
    if private is None:
        alone = baseline(context, facts, holdout)
        compared = {ALONE: alone.prediction, **compared}
        if alone.chosen:
            evaluation["alone"] = alone.chosen
        comparison = Comparison(task, truth, compared)
        result = {name: comparison.evaluated(name) for name in compared}
    elif private.metrics_epsilon is not None:
        found, charge = noisy_metrics(context, task, truth, compared, private.metrics_epsilon)
        result = {name: found[name] for name in compared}
    else:
        result = {name: metrics.evaluate(task, truth, of) for name, of in compared.items()}
    old = result.pop(REFERENCE, None)
    documents: dict[str, Any] = {}
    lasting: dict[str, Any] = {}
    if private is None:
        # Of a private model they would be exact functions of the rows.
        new = f"federated_{mode}"
        evaluation |= pictures_of(task, facts["classes"], truth, compared, comparison, new)
        fitted = scoring_of(context.federation.scoring, task, truth, predictions)
        evaluation["distributions"] = distributions_of(facts, fitted, truth, predictions)
        documents[SCORING] = fitted
        lasting[score_profile(context.run)] = score_profiles(task, fitted, predictions)
    if by_interval:
        decision = interval_gate(context, task, comparison, version)
    else:
        decision = gate(context, task, result[f"federated_{mode}"], old)
    decision = unless_repeated(context, model, decision)
    evaluation["metrics"] = result
    if context.federation.alignment.overlap == "left":
        codes = coverage(context, context.home.json("alignment")["train"], len(truth))
        of = {name: compared[name] for name in result}
        evaluation["coverage"] = metrics_by_group(task, truth, of, codes)
    return Outcome(
        tables={"predictions": _table(predictions)},
        documents={**documents, "evaluation": evaluation, "gate": decision},
        lasting=lasting,
        summary={"rows": len(truth), "mode": mode, "metrics": result, "gate": decision["why"]},
        # Metrics follow from the common people, and are redacted.
        discloses="",
        model=charge,
    )


def _frame(
    context: Context, mode: ScoringMode, facts: Mapping[str, Any], holdout: pa.Table, used: set[str]
) -> np.ndarray:
    matrix = frame_of(holdout, facts).matrix
    if mode != "desensitised":
        positions = integers(context.home.table("alignment"), "position")[-holdout.num_rows :]
        for name, values in other_columns(context, mode, positions, used).items():
            matrix[:, facts["names"].index(name)] = values
    return matrix


def _table(predictions: Mapping[ScoringMode, np.ndarray]) -> pa.Table:
    """Predictions by mode; a list a row where there are several classes."""
    columns = {}
    for mode, prediction in predictions.items():
        flat = pa.array(np.ravel(prediction))
        several = prediction.ndim == 2
        columns[mode] = (
            pa.FixedSizeListArray.from_arrays(flat, prediction.shape[1]) if several else flat
        )
    return pa.table(columns)
