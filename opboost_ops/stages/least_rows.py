"""A run about too few people stops before anything of them is released, or is used."""

from opboost_ops.errors import ContractError
from opboost_ops.stages.stage import Context, Outcome


def too_few(context: Context, rows: int) -> Outcome | None:
    """The end of a feature holder's run whose table is smaller than its policy allows.

    Args:
        context: The party's.
        rows: Of its table.

    Returns:
        A failure, with a ledger entry of what it discloses; None if they are enough.
    """
    least = getattr(context.policy.alignment.least_rows, context.purpose)
    if rows >= least:
        return None
    return Outcome(
        failure=ContractError(
            f"The policy of {context.party} requires {least:,} rows in its table for a "
            f"{context.purpose} run, and there are fewer.",
            "Nothing was released. Its owner may lower alignment.least_rows in policy.yaml.",
        ),
        discloses=f"that fewer than {least:,} people are in the party's table",
    )


def too_few_common(context: Context, common: int) -> Outcome | None:
    """The end of a run whose intersection is smaller than the label holder's policy allows.

    Args:
        context: The label holder's.
        common: How many people are common to all.

    Returns:
        A failure, with a ledger entry of what it discloses; None if they are enough.
    """
    least = getattr(context.policy.alignment.least_common, context.purpose)
    if common >= least:
        return None
    return Outcome(
        failure=ContractError(
            f"The policy of {context.party} requires {least:,} common people in a "
            f"{context.purpose} run, and there are fewer.",
            "No model was trained. Its owner may lower alignment.least_common in policy.yaml.",
        ),
        discloses=f"that fewer than {least:,} people are common to all parties",
    )
