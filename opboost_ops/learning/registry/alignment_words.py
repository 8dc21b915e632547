"""What the card says of how the common people were found."""

from opboost_ops.config.federation import Federation

_SEALED = (
    "{holders} published sealed rows of all their people. {label} opened those of its own people "
    "whom {all} have, learnt the row count of {holders}, and can do so in every run of the month. "
    "{holders} learnt how many new people {label} queried, and neither who is common nor how "
    "many. Nobody else can test an ID (exact, no epsilon)."
)
_LEFT = (
    "{holders} published sealed rows of all their people. {label} opened those of its own people, "
    "learnt which of them are in the table of {holders}, and the row count, and can do so in every "
    "run of the month; values of people who are not there are missing. {holders} learnt how many "
    "new people {label} queried, and not who they are (exact, no epsilon)."
)


def alignment_words(federation: Federation, holders: str | None = None) -> str:
    """Who learnt what when the common people were found, in a vertical run.

    Args:
        federation: As it was run.
        holders: What the feature holders are called; by their names when absent.
    """
    names = holders or ", ".join(federation.feature_holders)
    one = len(federation.feature_holders) == 1
    words = _SEALED if federation.alignment.overlap == "common" else _LEFT
    return words.format(
        label=federation.label_holder,
        holders=names,
        all=names if one else "all of them",
    )
