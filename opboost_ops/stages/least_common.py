"""A run about too few people stops before anything of them is released, or is used."""

from opboost_ops.errors import ContractError
from opboost_ops.stages.stage import Context, Outcome


def too_few(context: Context, common: int) -> Outcome | None:
    """The end of a run whose intersection is smaller than the party's policy allows.

    Args:
        context: The party's.
        common: How many people are common to all; of a feature holder with decoys, who cannot know
            it, how many people it is about to release.

    Returns:
        A failure, with a ledger line of what it tells; None if they are enough.
    """
    least = getattr(context.policy.alignment.least_common, context.purpose)
    if common >= least:
        return None
    if context.federation.has_decoys and context.party != context.federation.label_holder:
        return Outcome(
            failure=ContractError(
                f"The policy of {context.party} wants {least:,} people in what it releases in a "
                f"{context.purpose} run, and its table has fewer.",
                "Nothing was released. Its owner may lower alignment.least_common in policy.yaml.",
            ),
            discloses=f"that fewer than {least:,} people are in the party's table",
        )
    return Outcome(
        failure=ContractError(
            f"The policy of {context.party} wants {least:,} common people in a {context.purpose} "
            "run, and there are fewer.",
            "Nothing was released. Its owner may lower alignment.least_common in policy.yaml.",
        ),
        discloses=f"that fewer than {least:,} people are common to all parties",
    )
