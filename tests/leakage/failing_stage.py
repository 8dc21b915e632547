"""A stage that ends, its work done, in a foreign error that shows cells."""

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
    federation: Federation, purpose: Purpose, one_of_each: dict[str, str]
) -> dict[str, tuple[str, str, str]]:
    """For every stage, the task that is to fail, its party, and what its error says.

    Args:
        federation: Whose DAG it is.
        purpose: Of the run.
        one_of_each: Values of every column, by party; a feature holder comes first.
    """
    holder, owner = one_of_each
    found: dict[str, tuple[str, str, str]] = {}
    for phase in phases(federation, purpose):
        party = holder if phase.role == "feature_holder" else owner
        for name in phase.stages:
            if name not in found or party == holder:
                found[name] = (f"{party}_{phase.name}.{name}", party, one_of_each[party])
    return found
