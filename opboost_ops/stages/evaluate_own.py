"""Arrow: the common model and a party's own held-out rows -> metrics, which stay its own."""

from typing import Any

import numpy as np
import pyarrow as pa

from opboost_ops.boosting import federboost, metrics
from opboost_ops.boosting.intervals import Comparison
from opboost_ops.boosting.rounds import Alone
from opboost_ops.boosting.trainer import predict
from opboost_ops.models.live import score_profile
from opboost_ops.models.registry import Registry
from opboost_ops.stages.assemble import LABEL, frame_of
from opboost_ops.stages.boost import model_text, rows_of, settings_of
from opboost_ops.stages.gate import comparable_reference, gate
from opboost_ops.stages.held_out import (
    SCORING,
    distributions_of,
    pictures_of,
    score_profiles,
    scoring_of,
)
from opboost_ops.stages.interval_gate import ALONE, DISCLOSES, REFERENCE, interval_gate
from opboost_ops.stages.materialise import materialised_model
from opboost_ops.stages.noisy_metrics import noisy_metrics
from opboost_ops.stages.reference import interval_rule, reference_of
from opboost_ops.stages.repeated import unless_repeated
from opboost_ops.stages.stage import Context, Outcome

#: What a private model's metrics say where they have no noise.
_EXACT = "metrics of the model: exact functions of this party's held-out rows and their labels"


def evaluate_own(context: Context) -> Outcome:
    """Evaluate the common model beside one of this party's rows alone, and the champion.

    With `training.private` there is no model of the own rows alone: it would have no noise.
    """
    facts = context.home.json("frame")
    holdout = context.home.table("holdout_frame")
    truth = np.asarray(holdout.column(LABEL).to_numpy())
    matrix = frame_of(holdout, facts).matrix
    model = materialised_model(context)
    prediction = predict(model, matrix)
    mode, task = context.federation.scoring.mode, facts["task"]
    new = f"federated_{mode}"
    registry = Registry(context.site.models, context.federation.name)
    version = reference_of(context.federation, registry, context.run)
    reference = comparable_reference(context, facts, version)
    compared = {new: prediction}
    if reference is not None:
        compared[REFERENCE] = prediction if reference == model else predict(reference, matrix)
    evaluation: dict[str, Any] = {"rows": len(truth), "mode": mode}
    private, charge = context.federation.training.private, None
    if private is None:
        compared = {ALONE: _alone(context, matrix), **compared}
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
        evaluation |= pictures_of(task, facts["classes"], truth, compared, comparison, new)
        made = {mode: prediction}
        fitted = scoring_of(context.federation.scoring, task, truth, made)
        evaluation["distributions"] = distributions_of(facts, fitted, truth, made)
        documents[SCORING] = fitted
        lasting[score_profile(context.run)] = score_profiles(task, fitted, made)
    if interval_rule(context.federation):
        decision = interval_gate(context, task, comparison, version)
    else:
        decision = gate(context, task, result[new], old)
    decision = unless_repeated(context, model, decision)
    evaluation["metrics"] = result
    flat = prediction if prediction.ndim == 1 else prediction.max(axis=1)
    return Outcome(
        tables={"predictions": pa.table({mode: pa.array(flat)})},
        documents={**documents, "evaluation": evaluation, "gate": decision},
        lasting=lasting,
        summary={"rows": len(truth), "mode": mode, "metrics": result, "gate": decision["why"]},
        discloses="" if charge else DISCLOSES if private is None else _EXACT,
        model=charge,
    )


def _alone(context: Context, matrix: np.ndarray) -> np.ndarray:
    columns, label = rows_of(context.home.table("rows"), context.federation)
    settings = settings_of(context.federation)
    if settings.objective.task != "regression" and len(np.unique(label)) < 2:
        objective = settings.objective
        return metrics.constant_prediction(objective.task, objective.classes, label, len(matrix))
    own = federboost.learn(columns, label, settings, Alone())
    return predict(model_text(own, context.federation), matrix)
