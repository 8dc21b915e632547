"""Arrow: training frame -> partial model, whose thresholds on others' features are ranks."""

import numpy as np

from opboost_ops.boosting import trainer
from opboost_ops.boosting.trainer import Parameters
from opboost_ops.stages.assemble import LABEL, frame_of
from opboost_ops.stages.stage import Context, Outcome


def train(context: Context) -> Outcome:
    """Train on own values and others' ranks.

    Raises:
        ContractError: The training frame was not checked.
    """
    context.home.json("checked_frame")
    table, facts = context.home.table("frame"), context.home.json("frame")
    frame = frame_of(table, facts)
    label = np.asarray(table.column(LABEL).to_numpy())
    text = trainer.train(frame, label, parameters_of(context, facts["task"], len(facts["classes"])))
    return Outcome(
        files={"partial_model.txt": text.encode()},
        summary={"rows": table.num_rows, "trees": context.federation.training.trees},
    )


def parameters_of(context: Context, task: str, classes: int) -> Parameters:
    """The booster's parameters in this run."""
    training = context.federation.training
    return Parameters(
        task=task,  # type: ignore[arg-type]
        classes=classes,
        trees=training.trees,
        learning_rate=training.learning_rate,
        depth=training.depth,
        seed=training.seed,
    )
