"""A stage that ends, its work done, in a foreign error that shows cells."""

from typing import get_args

from opboost_ops.config.federation import Federation, Purpose
from opboost_ops.pipeline.phases import phases
from opboost_ops.pipeline.stage import Context, Outcome, Stage

#: Stages of horizontal learning: they fail in its own tests, `test_horizontal_runs`.
HORIZONTAL = {"encode_rows", "boost", "evaluate_own"}


def failing(stage: Stage, text_at: dict[str, str]) -> Stage:
    """The same stage, but at some parties it fails.

    Args:
        stage: The real one.
        text_at: What the error says, by party. Looked up at each call.
    """

    def run(context: Context) -> Outcome:
        import polars as pl

        outcome = stage(context)
        text = text_at.get(context.party)
        if text is None:
            return outcome
        try:
            raise ValueError(text)
        except ValueError as error:
            raise pl.exceptions.ComputeError(f"conversion failed: {text}") from error

    return run


def planned(
    federation: Federation, one_of_each: dict[str, str]
) -> dict[str, tuple[str, str, str, str]]:
    """For every stage, the DAG and its task that is to fail, its party, and what its error says.

    A stage that both DAGs have fails in training; of the feature holders it fails at the first one,
    unless only another one has it.

    Args:
        federation: Whose DAGs they are.
        one_of_each: Values of every column, by party.
    """
    found: dict[str, tuple[str, str, str, str]] = {}
    for purpose in get_args(Purpose):
        here: dict[str, tuple[str, str, str, str]] = {}
        for phase in phases(federation, purpose):
            own: dict[str, tuple[str, str, str, str]] = {}
            for party in phase.parties(federation):
                dag, text = f"{federation.name}_{purpose}", one_of_each[party]
                for chain in phase.chains:
                    task = f"{party}_{phase.name}.{chain.name}"
                    for name in chain.stages:
                        own.setdefault(name, (dag, task, party, text))
            # What both roles have, such as a look at the table, fails at a feature holder.
            here |= own if "feature_holder" in phase.roles else {**own, **here}
        found = {**here, **found}
    return found
