"""What the card says of how the common people were found."""

from opboost_ops.config.federation import Federation

_KEYED = (
    "{label} received a keyed digest of every ID of {holders}; whoever holds the alignment key "
    "can test guessed IDs (exact, no epsilon)."
)
_ONE = (
    "{label} learnt the row count of {holders}, and which of its own people are in that table; "
    "{holders} learnt the row count of {label}. Nobody can test the ID of anybody else (exact, no "
    "epsilon)."
)
_SEVERAL = (
    "{label} learnt the row counts of {holders}, and which of its own people all parties have, but "
    "not whom some of them have; they learnt the row count of {label}. Nobody can test the ID of "
    "anybody else (exact, no epsilon)."
)

_DECOYS = (
    "{label} learnt the row count of {holders}, and which of its own people are in that table; "
    "{holders} learnt the row count of {label}, and neither which of the own people are common nor "
    "how many. Nobody can test the ID of anybody else (exact, no epsilon)."
)

_EPOCH = (
    " Exponents stay for a month: in each run of it {label} could look up everybody about whom it "
    "asked in any of them, and {holders} saw how many of its people came and went."
)


def alignment_words(federation: Federation, holders: str | None = None) -> str:
    """Who learnt what when the common people were found, in a vertical run.

    Args:
        federation: As it was run.
        holders: What the feature holders are called; by their names when absent.
    """
    if federation.alignment_mode == "keyed":
        found = _KEYED
    else:
        found = _ONE if len(federation.feature_holders) == 1 else _SEVERAL
        found = _DECOYS if federation.has_decoys else found
        found += _EPOCH if federation.has_epoch else ""
    names = ", ".join(federation.feature_holders)
    return found.format(label=federation.label_holder, holders=holders or names)
