"""The evaluations on a card in words, and what using each for new rows tells to whom."""

from collections.abc import Iterable

from opboost_ops.config.federation import Federation
from opboost_ops.config.schema import Record

#: By name of a row of metrics: its title, and what leaves. {label} and {holders} are the parties.
_WORDS = {
    "label_holder_alone": (
        "the columns of {label} alone",
        "Nothing leaves: no other party takes part.",
    ),
    "federated_desensitised": (
        "everyone's columns, mode desensitised",
        "{label} receives the randomised domain values of {holders} for new rows, as it did for "
        "the held-out ones; the loss curve beside each feature says what that costs.",
    ),
    "federated_routed": (
        "everyone's columns, mode routed",
        "{label} learns of every new row on which side of every threshold of the model it lies, "
        "for the features of {holders}: the domain value up to the thresholds, exactly. That is "
        "a structural disclosure without any epsilon, and each holder keeps an account of it.",
    ),
    "federated_local": (
        "everyone's columns, mode local",
        "Nothing leaves: {label} holds all columns that the model needs.",
    ),
}

#: The same in horizontal learning.
_HORIZONTAL_WORDS = {
    "label_holder_alone": ("this party's rows alone", "Nothing leaves."),
    "federated_local": (
        "everyone's rows, on this party's held-out ones",
        "Nothing leaves: each party scores its own rows at home.",
    ),
}

CENTRALISED = (
    "How good a model on everyone's joined raw columns would be is not on this card: in "
    "production nobody holds the joined rows. For a named data set, `opboost run --dataset NAME` "
    "measures it after the run and prints it beside these."
)


#: The same in horizontal learning.
POOLED = (
    "How good a model on everyone's joined rows would be is not on this card, because nobody holds "
    "them. It is this one, to the bit, if it is trained with the same bins: sums do not depend on "
    "who adds them up."
)


class ModeLine(Record):
    """One row of metrics in words.

    Attributes:
        name: Its key in the card's metrics.
        title: What was trained on, in which mode it was evaluated.
        discloses: What leaves to whom when new rows are scored so; empty when not known.
        scoring: Whether the federation scores in this mode.
    """

    name: str
    title: str
    discloses: str
    scoring: bool


def modes_of(federation: Federation, names: Iterable[str]) -> tuple[ModeLine, ...]:
    """Rows of metrics in words; a mode that was not evaluated has none.

    Args:
        federation: As it was run.
        names: Keys of the metrics.
    """
    parties = {
        "label": federation.label_holder,
        "holders": ", ".join(federation.feature_holders),
    }
    words = _WORDS if federation.learning == "vertical" else _HORIZONTAL_WORDS
    lines = []
    for name in names:
        title, discloses = words.get(name, (name.replace("_", " "), ""))
        lines.append(
            ModeLine(
                name=name,
                title=title.format(**parties),
                discloses=discloses.format(**parties),
                scoring=name == f"federated_{federation.scoring.mode}",
            )
        )
    return tuple(lines)
