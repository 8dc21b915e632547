"""A stage that ends, its work done, in a foreign error that shows cells."""

from opboost_ops.stages import catalogue
from opboost_ops.stages.stage import Context, Outcome, Stage


def failing(stage: Stage, text_at: dict[str, str]) -> Stage:
    """The same stage, but at some parties it fails.

    Args:
        stage: The real one.
        text_at: What the error says, by party. Looked up at each call.
    """

    def run(context: Context) -> Outcome:
        import polars as pl

        outcome = stage.run(context)
        text = text_at.get(context.party)
        if text is None:
            return outcome
        try:
            raise ValueError(text)
        except ValueError as error:
            raise pl.exceptions.ComputeError(f"conversion failed: {text}") from error

    return Stage(stage.name, stage.groups, run)


def planned(one_of_each: dict[str, str]) -> dict[str, tuple[str, str, str]]:
    """For every stage, the task that is to fail, its party, and what its error says.

    Args:
        one_of_each: Values of every column, by party; a feature holder comes first.
    """
    holder, owner = one_of_each
    found = {}
    for name, stage in catalogue.STAGES.items():
        role = "feature_holder" if "feature_holder" in stage.groups else "label_holder"
        party = holder if role == "feature_holder" else owner
        found[name] = (f"{party}_{stage.groups[role]}.{name}", party, one_of_each[party])
    return found
