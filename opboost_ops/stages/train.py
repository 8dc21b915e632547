"""Arrow: training frame -> partial model, whose thresholds on others' features are ranks."""

from collections.abc import Sequence

import numpy as np

from opboost_ops.boosting import trainer
from opboost_ops.boosting.trainer import Parameters, format_of
from opboost_ops.config.federation import Training
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
    training = context.federation.training
    text = trainer.train(frame, label, parameters_of(training, facts["task"], facts["classes"]))
    return Outcome(
        files={_partial(context): text.encode()},
        summary={"rows": table.num_rows, "trees": training.trees},
    )


def partial_model(context: Context) -> str:
    """The partial model that this run has trained."""
    return context.home.read(_partial(context)).decode()


def _partial(context: Context) -> str:
    return f"partial_{format_of(context.federation.training.trainer).file}"


def parameters_of(training: Training, task: str, classes: Sequence[str | int]) -> Parameters:
    """The booster's parameters.

    Args:
        training: What the federation declares.
        task: What is learnt.
        classes: Its classes; none in regression.
    """
    assert training.trainer != "federboost"
    return Parameters(
        task=task,  # type: ignore[arg-type]
        classes=len(classes),
        trees=training.trees,
        learning_rate=training.learning_rate,
        depth=training.depth,
        seed=training.seed,
        trainer=training.trainer,
        method=training.method or "hist",
    )
