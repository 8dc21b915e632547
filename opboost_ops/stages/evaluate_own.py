"""Arrow: the common model and a party's own held-out rows -> metrics, which stay its own."""

import numpy as np
import pyarrow as pa

from opboost_ops.boosting import federboost, metrics
from opboost_ops.boosting.rounds import Alone
from opboost_ops.boosting.trainer import predict
from opboost_ops.stages.assemble import LABEL, frame_of
from opboost_ops.stages.boost import model_text, rows_of, settings_of
from opboost_ops.stages.gate import comparable_champion, gate
from opboost_ops.stages.materialise import materialised_model
from opboost_ops.stages.stage import Context, Outcome


def evaluate_own(context: Context) -> Outcome:
    """Evaluate the common model beside one of this party's rows alone, and the champion."""
    facts = context.home.json("frame")
    holdout = context.home.table("holdout_frame")
    truth = np.asarray(holdout.column(LABEL).to_numpy())
    matrix = frame_of(holdout, facts).matrix
    prediction = predict(materialised_model(context), matrix)
    alone = _alone(context, matrix)
    mode = context.federation.scoring.mode
    result = {
        "label_holder_alone": metrics.evaluate(facts["task"], truth, alone),
        f"federated_{mode}": metrics.evaluate(facts["task"], truth, prediction),
    }
    champion = comparable_champion(context, facts)
    old = champion and metrics.evaluate(facts["task"], truth, predict(champion, matrix))
    decision = gate(context, facts["task"], result[f"federated_{mode}"], old or None)
    flat = prediction if prediction.ndim == 1 else prediction.max(axis=1)
    return Outcome(
        tables={"predictions": pa.table({mode: pa.array(flat)})},
        documents={
            "evaluation": {"rows": len(truth), "mode": mode, "metrics": result},
            "gate": decision,
        },
        summary={"rows": len(truth), "mode": mode, "metrics": result, "gate": decision["why"]},
        discloses="metrics of the model, functions of the held-out rows and their labels",
    )


def _alone(context: Context, matrix: np.ndarray) -> np.ndarray:
    columns, label = rows_of(context.home.table("rows"), context.federation)
    settings = settings_of(context.federation)
    if settings.objective.task != "regression" and len(np.unique(label)) < 2:
        objective = settings.objective
        return metrics.constant_prediction(objective.task, objective.classes, label, len(matrix))
    own = federboost.learn(columns, label, settings, Alone())
    return predict(model_text(own, context.federation), matrix)
