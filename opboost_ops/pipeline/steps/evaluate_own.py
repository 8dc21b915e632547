"""Step: the common model and a party's own held-out rows -> metrics, which stay at the party."""

import numpy as np

from opboost_ops.exchange.rounds.protocol import Alone
from opboost_ops.learning import metrics
from opboost_ops.learning.boosters.trainer import predict
from opboost_ops.learning.federboost import federboost
from opboost_ops.learning.federboost.declared import settings_of
from opboost_ops.learning.registry.registry import Registry
from opboost_ops.pipeline.evaluation.baseline import Baseline
from opboost_ops.pipeline.evaluation.held_out import judge
from opboost_ops.pipeline.evaluation.reference import comparable_reference, reference_of
from opboost_ops.pipeline.inputs.model_columns import LABEL, frame_of
from opboost_ops.pipeline.stage import Context, Outcome
from opboost_ops.pipeline.steps.boost import model_text, rows_of
from opboost_ops.pipeline.steps.check_model import checked_prediction
from opboost_ops.pipeline.steps.materialise import materialised_model


def evaluate_own(context: Context) -> Outcome:
    """Evaluate the common model beside the reference and a model of this party's rows alone."""
    facts = context.home.json("frame")
    holdout = context.home.table("holdout_frame")
    matrix = frame_of(holdout, facts).matrix
    model = materialised_model(context)
    prediction = checked_prediction(context, len(matrix))
    registry = Registry(context.site.models, context.federation.name)
    version = reference_of(context.federation, registry, context.run)
    text = comparable_reference(context, facts, version)
    reference = None
    if text is not None:
        reference = prediction if text == model else predict(text, matrix)
    return judge(
        context,
        facts,
        np.asarray(holdout.column(LABEL).to_numpy()),
        model,
        {context.federation.scoring.mode: prediction},
        reference,
        version,
        lambda: Baseline(_alone(context, matrix), {}),
    )


def _alone(context: Context, matrix: np.ndarray) -> np.ndarray:
    columns, label = rows_of(context.home.table("rows"), context.federation)
    settings = settings_of(context.federation)
    if settings.objective.task != "regression" and len(np.unique(label)) < 2:
        objective = settings.objective
        return metrics.constant_prediction(objective.task, objective.classes, label, len(matrix))
    own = federboost.learn(columns, label, settings, Alone())
    return predict(model_text(own, context.federation), matrix)
