"""What finding and sealing rows discloses to whom, as the ledger says it; exact, no epsilon."""

from collections.abc import Iterator

from opboost_ops.config.federation import Federation

QUERY = (
    "how many people are asked about who were not asked about before in the month; the points "
    "reveal nothing about who they are"
)
SHARES = "row count; nothing about anybody whom the label holder has not asked about"
SEALED = (
    "row count; the rows of people whom the label holder asked about in the month and whom all "
    "feature holders have, in every run of the month, and which randomised values occur in the "
    "table"
)
_ANSWERED = {
    1: "for each of the people asked about, whether the table has them (membership), in every run "
    "of the month",
    2: "for each of the people asked about, whether all parties have them (membership), in every "
    "run of the month; not which of the parties has somebody whom another one lacks",
}


def answered(federation: Federation) -> str:
    """What an answer discloses to the label holder.

    Args:
        federation: The plan's.
    """
    return _ANSWERED[min(len(federation.feature_holders), 2)]


def disclosures(federation: Federation) -> Iterator[tuple[str, str, str]]:
    """From whom, to whom, and what.

    Args:
        federation: As declared.
    """
    owner = federation.label_holder
    for holder in federation.feature_holders:
        yield owner, holder, QUERY
        yield holder, owner, answered(federation)
        yield holder, owner, SEALED
