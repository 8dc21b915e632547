"""Arrow: model and held-out rows -> metrics, each naming its mode."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from opboost_ops.boosting import metrics, trainer
from opboost_ops.boosting.trainer import model_of, predict
from opboost_ops.config.federation import ScoringMode
from opboost_ops.exchange.encoding import integers
from opboost_ops.stages.assemble import LABEL, frame_of
from opboost_ops.stages.gate import CHAMPION, comparable_champion, gate
from opboost_ops.stages.materialise import materialised_model
from opboost_ops.stages.noisy_metrics import noisy_metrics
from opboost_ops.stages.others import others
from opboost_ops.stages.stage import Context, Outcome
from opboost_ops.stages.train import parameters_of


def evaluate(context: Context) -> Outcome:
    """Evaluate in every declared mode, beside a model of the label holder's columns alone.

    Mode ``desensitised`` is always among them: its rows were released with the training rows.
    """
    facts = context.home.json("frame")
    holdout = context.home.table("holdout_frame")
    truth = np.asarray(holdout.column(LABEL).to_numpy())
    model = materialised_model(context)
    task, mode = facts["task"], context.federation.scoring.mode
    used = set(model_of(model).numeric_splits())
    champion = comparable_champion(context, facts)
    if champion is not None:
        used |= set(model_of(champion).numeric_splits())
    frames: dict[ScoringMode, np.ndarray] = {
        name: _frame(context, name, facts, holdout, used)
        for name in dict.fromkeys((*context.federation.scoring.modes, "desensitised"))
    }
    predictions = {name: predict(model, matrix) for name, matrix in frames.items()}
    compared = {f"federated_{name}": prediction for name, prediction in predictions.items()}
    if champion is not None:
        compared[CHAMPION] = predict(champion, frames[mode])
    result: dict[str, dict[str, float]] = {}
    charge = None
    private = context.federation.training.private
    # A second private model would be a second charge; one without noise would undo the first.
    if private is None:
        alone = _alone(context, facts, holdout)
        result["label_holder_alone"] = metrics.evaluate(task, truth, alone)
    if private is not None and private.metrics_epsilon is not None:
        found, charge = noisy_metrics(context, task, truth, compared, private.metrics_epsilon)
        result |= {name: found[name] for name in compared}
    else:
        result |= {name: metrics.evaluate(task, truth, of) for name, of in compared.items()}
    old = result.pop(CHAMPION, None)
    decision = gate(context, task, result[f"federated_{mode}"], old)
    return Outcome(
        tables={"predictions": _table(predictions)},
        documents={
            "evaluation": {"rows": len(truth), "mode": mode, "metrics": result},
            "gate": decision,
        },
        summary={"rows": len(truth), "mode": mode, "metrics": result, "gate": decision["why"]},
        discloses=""
        if charge
        else "metrics of the model, functions of the held-out rows and their labels",
        model=charge,
    )


def _frame(
    context: Context, mode: ScoringMode, facts: Mapping[str, Any], holdout: pa.Table, used: set[str]
) -> np.ndarray:
    matrix = frame_of(holdout, facts).matrix
    if mode != "desensitised":
        positions = integers(context.home.table("alignment"), "position")[-holdout.num_rows :]
        for name, values in others(context, mode, positions, used).items():
            matrix[:, facts["names"].index(name)] = values
    return matrix


def _alone(context: Context, facts: Mapping[str, Any], holdout: pa.Table) -> np.ndarray:
    table = context.home.table("frame")
    label = np.array(table.column(LABEL).to_numpy())
    own = frame_of(table, facts, f"{context.party}.")
    del table
    task, classes = facts["task"], facts["classes"]
    if not own.names:
        return metrics.constant_prediction(task, len(classes), label, holdout.num_rows)
    alone = trainer.train(own, label, parameters_of(context.federation.training, task, classes))
    return predict(alone, frame_of(holdout, facts, f"{context.party}.").matrix)


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
