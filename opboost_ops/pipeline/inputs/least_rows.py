"""A run about too few people stops before anything of them is released, or is used."""

from opboost_ops.errors import ContractError
from opboost_ops.pipeline.stage import Context


def require_rows(context: Context, rows: int) -> None:
    """Refuse to release of a table that is smaller than the party's policy allows.

    Args:
        context: The feature holder's.
        rows: Of its table.

    Raises:
        ContractError: It has fewer rows than the policy requires.
    """
    least = getattr(context.policy.alignment.least_rows, context.purpose)
    if rows < least:
        raise ContractError(
            f"The policy of {context.party} requires {least:,} rows in its table for a "
            f"{context.purpose} run, and there are fewer.",
            "Its owner may lower alignment.least_rows in policy.yaml.",
        )


def require_common(context: Context, common: int) -> None:
    """Refuse to train on fewer common people than the party's policy allows; any may be scored.

    Args:
        context: The label holder's.
        common: How many people are common to all.

    Raises:
        ContractError: It is a training run, and they are fewer than the policy requires.
    """
    least = context.policy.alignment.least_common
    if context.purpose == "score" or common >= least:
        return
    if not common:
        raise ContractError(
            "No ID is common to all parties.",
            "Keys and versions agree. Check that all mean the same ID column and type, and write "
            "IDs in one form (leading zeros, case).",
        )
    raise ContractError(
        f"The policy of {context.party} requires {least:,} common people in a training run, and "
        "there are fewer.",
        "No model was trained. Its owner may lower alignment.least_common in policy.yaml.",
    )
