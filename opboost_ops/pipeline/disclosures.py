"""Disclosures of finding and sealing rows, as the ledger states them; exact, no epsilon."""

from collections.abc import Iterator

from opboost_ops.config.federation import Federation

QUERY = (
    "how many people are queried for the first time in the month; the blinded "
    "IDs do not reveal identities"
)
SHARES = (
    "row count; with the other feature holders' shares and rows, which of the people queried all "
    "of them have, even in a run in which this party releases no rows; nothing about people whom "
    "the label holder has not queried"
)
_SEALED = (
    "row count; in every run of the month, the rows of those people queried in it whom {}; which "
    "randomised values occur in the table"
)
_ANSWERED = (
    "for each person queried, whether the table has them (membership), in every run of the month"
)
_ANSWERED_JOINTLY = (
    "for each person queried, whether all parties have them (membership), in every run of the "
    "month; not which party lacks a person that another one has"
)


def answered(federation: Federation) -> str:
    """Disclosure of an answer to the label holder.

    Args:
        federation: The plan's.
    """
    return _ANSWERED_JOINTLY if federation.has_shares else _ANSWERED


def sealed(federation: Federation) -> str:
    """Disclosure of sealed rows to the label holder.

    Args:
        federation: The plan's.
    """
    return _SEALED.format("all feature holders have" if federation.has_shares else "the party has")


def disclosures(federation: Federation) -> Iterator[tuple[str, str, str]]:
    """From whom, to whom, and what.

    Args:
        federation: As declared.
    """
    owner = federation.label_holder
    for holder in federation.feature_holders:
        yield owner, holder, QUERY
        yield holder, owner, answered(federation)
        yield holder, owner, sealed(federation)
