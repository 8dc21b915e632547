"""What private alignment tells whom, in the words of the ledger."""

from opboost_ops.config.federation import Federation

_ASKED = (
    "row count; the points themselves tell nothing to anybody who lacks the label holder's "
    "exponent of this run"
)
_ASKED_IN_EPOCH = (
    "row count, and which points were there in earlier runs of the same month, so how many people "
    "came and went; the points themselves tell nothing to anybody who lacks the label holder's "
    "exponent of the month"
)
_LAID_OUT = (
    "row count; of its people nothing but what an answer to a query gives: no ID can be tested "
    "by anybody else, nor later"
)
_LAID_OUT_IN_EPOCH = (
    "row count; of its people nothing but what answers give, to queries of this run or of another "
    "one of the same month: no ID can be tested by anybody else, nor after that month"
)
_LAID_OUT_WITH_DECOYS = (
    "row count, and the order of the values that follow, which are of all people in the table, "
    "each of whom is charged; whose a row is, only an answer to a query gives, of people about "
    "whom it asks. No ID can be tested by anybody else, nor later; but an unchanged row is the "
    "same in every run, so whoever becomes common later can be found in earlier releases"
)
_ANSWERED = {
    1: "for each of the label holder's people, whether the table has them (membership)",
    2: "for each of the label holder's people, whether all parties have them (membership); not "
    "which of the parties has somebody whom another one lacks",
}
_IN_EPOCH = "; the same of everybody about whom it asks in another run of the same month"


def asked(federation: Federation) -> str:
    """What a query tells a feature holder.

    Args:
        federation: The plan's.
    """
    return _ASKED_IN_EPOCH if federation.has_epoch else _ASKED


def laid_out(federation: Federation) -> str:
    """What a feature holder's tags, or its table of zero shares, tell the label holder.

    Args:
        federation: The plan's.
    """
    if federation.has_decoys:
        return _LAID_OUT_WITH_DECOYS
    return _LAID_OUT_IN_EPOCH if federation.has_epoch else _LAID_OUT


def answered(federation: Federation) -> str:
    """What an answer tells the label holder.

    Args:
        federation: The plan's.
    """
    found = _ANSWERED[min(len(federation.feature_holders), 2)]
    return found + _IN_EPOCH if federation.has_epoch else found
