"""A private model whose table does not suit its noise or delta, from public facts alone."""

from contextlib import ExitStack
from dataclasses import replace

from opboost_ops.boosting.dp.leaf_sums import noise_error, sums_of
from opboost_ops.config.federation import Federation
from opboost_ops.config.training import DPBoostTraining
from opboost_ops.errors import OpBoostError
from opboost_ops.run.site_faults import Parties
from opboost_ops.stages.rehearsal import common_people
from opboost_ops.stages.sources import borrowed


def small_table(federation: Federation, parties: Parties) -> str | None:
    """Whether a model with a delta has too few rows: for its delta, or for its noise.

    It goes by the number of common people, which every run states exactly, and by declarations. In
    horizontal learning no row count is exact, so nothing is said.

    Args:
        federation: As declared.
        parties: Context and folder of ``site.yaml`` of every party.

    Returns:
        A sentence; None where the table suffices, or the model has no delta.
    """
    training = federation.training
    if not isinstance(training, DPBoostTraining) or training.private.delta is None:
        return None
    label = federation.parties[federation.label_holder].label
    assert label is not None and label.task != "multiclass"
    try:
        with ExitStack() as stack:
            contexts = [replace(context, purpose="train") for context, _ in parties.values()]
            people = common_people([stack.enter_context(borrowed(one)) for one in contexts])
    except OpBoostError:
        return None
    if not people:
        return None
    # With a column of held-out rows, how many of them there are is read off the table.
    share = 1.0 - training.holdout
    rows, private = round(people * share), training.private
    assert private.delta is not None
    if private.delta * rows >= 1:
        return (
            f"training.private.delta is {private.delta:g}, which is not below 1 / {rows:,} "
            "training rows: the training would be refused. Declare a smaller one."
        )
    sums = sums_of(label.task, training.trees, private.epsilon, private.delta)
    error = noise_error(rows, sums, training.learning_rate)
    if error is None:
        return None
    unit = "in log odds"
    if label.bounds is not None:
        error, unit = error * (label.bounds[1] - label.bounds[0]) / 2, "in the label's unit"
    return (
        f"{rows:,} training rows are too few for epsilon {private.epsilon:g} and delta "
        f"{private.delta:g}: noise alone moves a score by about {error:.2g} ({unit}). Train on "
        "more rows, or declare a larger training.private.epsilon."
    )
