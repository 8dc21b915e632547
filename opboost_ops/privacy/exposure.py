"""What a release says about one person, in plain words: the same ones wherever people read them.

The consent sheet, the audit log's entry of an agreement, the ledger's page, the statement and the
model card take the sentence from here.
"""

from opboost_ops.config.columns import MISSING, Column, columns_of
from opboost_ops.config.federation import Federation
from opboost_ops.mechanisms import UnaryEncoding
from opboost_ops.mechanisms.bits import BIT
from opboost_ops.privacy.guessing import Guess, Law
from opboost_ops.privacy.loss import column_losses

#: What the values of a released column are called, by its declared type; others are ranges.
_KINDS = {
    "nominal": "categories",
    "ordinal": "categories",
    "missing or not": "states (missing or present)",
}


def exposure_words(federation: Federation, party: str) -> str:
    """What the label holder learns about a person from the party's most exposed column.

    Args:
        federation: As declared.
        party: A feature holder.

    Returns:
        Empty where nothing is released.
    """
    if party not in federation.feature_holders:
        return ""
    columns = columns_of(federation, party)
    guesses = {
        charge: _law([c for c in columns if c.charge == charge]).guess(float(curve.loss[-1]))
        for charge, curve in column_losses(columns).items()
    }
    if not guesses:
        return ""
    charge = max(guesses, key=lambda name: guesses[name].after - guesses[name].before)
    name, _, bit = charge.partition("=")
    kind = "missing or not" if bit == MISSING else federation.parties[party].features[name].type
    return guess_words(charge, kind, guesses[charge], federation.label_holder)


def guess_words(column: str, kind: str, guess: Guess, receiver: str) -> str:
    """What a release of the most exposed column tells about one value.

    Args:
        column: What is charged.
        kind: Its declared type, or ``missing or not``.
        guess: What the receiver can guess of it.
        receiver: Who receives it.
    """
    return (
        f"Most exposed is {column}: the best attack of {receiver} guesses which of "
        f"{guess.values} {values_words(kind)} a person has in {share_words(guess.after)} of cases, "
        f"instead of {share_words(guess.before)} without the release. {_odds_sentence(guess)}"
    )


def values_words(kind: str) -> str:
    """What the values of a column are called.

    Args:
        kind: Its declared type, or ``missing or not``.
    """
    return _KINDS.get(kind, "ranges")


def share_words(value: float) -> str:
    """A share in per cent."""
    percent = 100 * value
    if 0 < percent < 0.01:
        return f"{percent:.1g} %"
    return f"{percent:.2f} %" if percent < 1 else f"{percent:.1f} %"


def odds_words(odds: float) -> str:
    """Odds, without their ``to 1``."""
    return "∞" if odds == float("inf") else f"{odds:,.3g}" if odds < 1e6 else f"{odds:.2g}"


def _odds_sentence(guess: Guess) -> str:
    if guess.odds == float("inf"):
        return "Some values it rules out for certain."
    return (
        f"Where two values were equally likely, the odds of one against the other are at most "
        f"{odds_words(guess.odds)} to 1 afterwards."
    )


def _law(group: list[Column]) -> Law:
    """The law of what is charged together: a feature, all bits of a category, or a missing bit."""
    first = group[0]
    if isinstance(first.mechanism, UnaryEncoding):
        return Law(first.mechanism.channel(BIT), len(group))
    return Law(first.mechanism.channel(first.domain))
