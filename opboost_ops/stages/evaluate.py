"""Arrow: model and held-out rows -> metrics, each naming its mode."""

import numpy as np

from opboost_ops.boosting import metrics, trainer
from opboost_ops.boosting.trainer import predict
from opboost_ops.stages.assemble import LABEL, frame_of
from opboost_ops.stages.gate import gate
from opboost_ops.stages.stage import Context, Outcome
from opboost_ops.stages.train import parameters_of


def evaluate(context: Context) -> Outcome:
    """Evaluate in mode ``desensitised``, beside a model of the label holder's columns alone."""
    facts = context.home.json("frame")
    table, holdout = context.home.table("frame"), context.home.table("holdout_frame")
    label = np.asarray(table.column(LABEL).to_numpy())
    truth = np.asarray(holdout.column(LABEL).to_numpy())
    model = context.home.read("model.txt").decode()
    own = frame_of(table, facts, f"{context.party}.")
    task, classes = facts["task"], len(facts["classes"])
    if own.names:
        alone = trainer.train(own, label, parameters_of(context, task, classes))
        by_alone = predict(alone, frame_of(holdout, facts, f"{context.party}.").matrix)
    else:
        by_alone = metrics.constant_prediction(task, classes, label, len(truth))
    result = {
        "label_holder_alone": metrics.evaluate(task, truth, by_alone),
        "federated_desensitised": metrics.evaluate(
            task, truth, predict(model, frame_of(holdout, facts).matrix)
        ),
    }
    new = result["federated_desensitised"][metrics.main_metric(task)]
    decision = gate(context, facts, frame_of(holdout, facts).matrix, truth, new)
    return Outcome(
        documents={
            "evaluation": {"rows": len(truth), "metrics": result},
            "gate": decision,
        },
        summary={"rows": len(truth), "metrics": result, "gate": decision["why"]},
        discloses="metrics of the model, functions of the held-out rows and their labels",
    )
