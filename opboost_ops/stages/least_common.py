"""A run about too few people stops before anything of them is released."""

from opboost_ops.errors import ContractError
from opboost_ops.stages.stage import Context, Outcome


def too_few(context: Context, common: int) -> Outcome | None:
    """The end of a run whose intersection is smaller than the party's policy allows.

    Args:
        context: The party's.
        common: How many people are common to all.

    Returns:
        A failure, with a ledger line of what it tells; None if they are enough.
    """
    least = getattr(context.policy.alignment.least_common, context.purpose)
    if common >= least:
        return None
    return Outcome(
        failure=ContractError(
            f"The policy of {context.party} wants {least:,} common people in a {context.purpose} "
            "run, and there are fewer.",
            "Nothing was released. Its owner may lower alignment.least_common in policy.yaml.",
        ),
        discloses=f"that fewer than {least:,} people are common to all parties",
    )
