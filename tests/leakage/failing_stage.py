"""A stage that ends, its work done, in a foreign error that shows cells."""

from typing import get_args

from opboost_ops.config.federation import Federation
from opboost_ops.protocol import Purpose, phases
from opboost_ops.stages.stage import Context, Outcome, Stage


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

    A stage that both DAGs have fails in training.

    Args:
        federation: Whose DAGs they are.
        one_of_each: Values of every column, by party; a feature holder comes first.
    """
    holder, owner = one_of_each
    found: dict[str, tuple[str, str, str, str]] = {}
    for purpose in get_args(Purpose):
        here: dict[str, tuple[str, str, str, str]] = {}
        for phase in phases(federation, purpose):
            party = holder if phase.role == "feature_holder" else owner
            task, text = f"{party}_{phase.name}", one_of_each[party]
            for name in phase.stages:
                if name not in here or party == holder:
                    here[name] = (f"{federation.name}_{purpose}", f"{task}.{name}", party, text)
        found = {**here, **found}
    return found
