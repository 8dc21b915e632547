"""Tables that are too small: for the noise of a private model, or for the gate."""

from contextlib import ExitStack
from dataclasses import replace

import polars as pl

from opboost_ops.config.federation import Federation
from opboost_ops.config.training import DPBoostTraining
from opboost_ops.errors import OpBoostError
from opboost_ops.learning.private.leaf_sums import noise_error, sums_of
from opboost_ops.pipeline.inputs.raw_blocks import blocks
from opboost_ops.pipeline.inputs.rehearsal import common_people
from opboost_ops.pipeline.inputs.sources import borrowed
from opboost_ops.pipeline.party.site_faults import Parties

#: Held-out rows of the rarer class by which a loss of 0.05 AUC is detected in 80 % of tables.
_TELLING = 100


def few_held_out(federation: Federation, parties: Parties) -> list[str]:
    """Parties whose held-out rows are too few for any rule of the gate.

    Args:
        federation: As declared.
        parties: Context and folder of ``site.yaml`` of every party.

    Returns:
        A sentence for each; none of regression.
    """
    share, label, notes = federation.training.holdout, federation.label, []
    if label is None or label.task == "regression":
        return []
    for party, (context, _) in parties.items():
        if federation.learning == "vertical" and party != federation.label_holder:
            continue
        try:
            with borrowed(replace(context, purpose="train")) as table:
                labels = pl.concat([block.to_series() for block in blocks(table, [label.column])])
        except OpBoostError:
            continue
        rarer = labels.drop_nulls().value_counts()["count"].min()
        if isinstance(rarer, int) and rarer * share < _TELLING:
            notes.append(
                f"About {rarer * share:.0f} rows of {party}'s rarest class would be held out: too "
                f"few for any gate to tell a model that is 0.05 AUC worse, which takes "
                f"{_TELLING}. Compare models over several runs, and promote by hand."
            )
    return notes


def small_table(federation: Federation, parties: Parties) -> str | None:
    """A warning if a model with a delta has too few rows: for its delta, or for its noise.

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
            people = common_people([stack.enter_context(borrowed(each)) for each in contexts])
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
