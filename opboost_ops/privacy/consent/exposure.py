"""Describes a person's exposure by a release, in the same words everywhere.

The consent sheet, the audit log's entry of an agreement, the ledger's page, the statement and the
model card use these sentences.
"""

import numpy as np

from opboost_ops.config.columns import Column, columns_of, missing_name
from opboost_ops.config.feature import Feature, Fill
from opboost_ops.config.federation import Federation
from opboost_ops.mechanisms import UnaryEncoding
from opboost_ops.mechanisms.randomised_response import BIT
from opboost_ops.privacy.consent.guessing import Guess, Law
from opboost_ops.privacy.edge_charges import edges_costs
from opboost_ops.privacy.loss import column_losses

#: Display name of a released column's values, by its declared type; the default is ranges.
_KINDS = {
    "nominal": "categories",
    "ordinal": "categories",
}


def exposure_words(federation: Federation, party: str) -> str:
    """Describe the label holder's best guess in the party's most exposed column.

    Args:
        federation: The declared federation.
        party: A feature holder.

    Returns:
        Empty if nothing is released.
    """
    guesses = {name: guess for name, (_, guess) in guesses_of(federation, party).items()}
    if not guesses:
        return ""
    name = max(guesses, key=lambda feature: guesses[feature].gain)
    kind = federation.parties[party].features[name].type
    return guess_words(name, kind, guesses[name], federation.label_holder)


def guesses_of(federation: Federation, party: str) -> dict[str, tuple[Law, Guess]]:
    """Return, by feature, the law of a release and the best guess, including the missing bit.

    Odds count the loss of private edges, too.

    Args:
        federation: The declared federation.
        party: The party; the result is empty if it releases nothing.
    """
    if party not in federation.feature_holders:
        return {}
    groups: dict[str, list[Column]] = {}
    for column in columns_of(federation, party):
        groups.setdefault(column.feature, []).append(column)
    guesses: dict[str, tuple[Law, Guess]] = {}
    edges = edges_costs(federation, party)
    for name, group in groups.items():
        law = _law(group, federation.parties[party].features[name], federation)
        loss = sum(float(curve.loss[-1]) for curve in column_losses(group).values())
        guesses[name] = law, law.guess(loss + edges.get(name, 0.0))
    return guesses


def guess_words(column: str, kind: str, guess: Guess, receiver: str) -> str:
    """Describe a guess of one value from a release of the most exposed column.

    Args:
        column: Name of the column.
        kind: Its declared type.
        guess: The receiver's best guess.
        receiver: The receiver.
    """
    return (
        f"Most exposed is {column}: the best attack of {receiver} guesses which of "
        f"{values_words(guess, kind)} a person has in {share_words(guess.after)} of cases, "
        f"instead of {share_words(guess.before)} without the release. {worst_words(guess)} "
        f"{_odds_sentence(guess)}"
    )


def worst_words(guess: Guess) -> str:
    """Describe the best guess if a person is known to have one of two, or three, values.

    Args:
        guess: The receiver's best guess.
    """
    three = (
        ""
        if guess.of_three is None
        else f", and among three in up to {share_words(guess.of_three)}"
    )
    return (
        f"Between two of them, equally likely, it guesses right in up to "
        f"{share_words(guess.of_two)} of cases{three}."
    )


def values_words(guess: Guess, kind: str) -> str:
    """Describe the number of a column's possible values.

    Args:
        guess: The receiver's best guess.
        kind: Declared type of the column.
    """
    called = _KINDS.get(kind, "ranges")
    missing = ", one of which is that it is missing," if guess.missing else ""
    return f"{guess.values} {called}{missing}"


def share_words(value: float) -> str:
    """Format a share in per cent."""
    percent = 100 * value
    if 0 < percent < 0.01:
        return "less than 0.01 %"
    return f"{percent:.2f} %" if percent < 1 else f"{percent:.1f} %"


def odds_words(odds: float) -> str:
    """Format odds, without ``to 1``."""
    if odds == float("inf"):
        return "∞"
    return "more than 1,000,000" if odds > 1e6 else f"{odds:,.0f}" if odds >= 10 else f"{odds:.3g}"


def _odds_sentence(guess: Guess) -> str:
    if guess.odds == float("inf"):
        return "The release rules out some values for certain."
    return (
        "If two values were equally likely, the odds of one against the other are at most "
        f"{odds_words(guess.odds)} to 1 afterwards."
    )


def _law(group: list[Column], feature: Feature, federation: Federation) -> Law:
    """Return the law of a feature's value, or of all its categories, with its missing bit."""
    missing = next((c for c in group if c.charge == missing_name(c.feature)), None)
    values = [column for column in group if column != missing]
    bit = None if missing is None else missing.mechanism.channel(BIT)
    first = values[0]
    if isinstance(first.mechanism, UnaryEncoding):
        return Law(first.mechanism.channel(BIT), len(values), missing=bit)
    fill = 0
    if isinstance(feature.missing, Fill):
        number = feature.missing.fill
        if feature.type == "ordinal":
            number = (feature.categories or ()).index(str(number))
        mapping = feature.domain_map(federation.domain.to_domain())
        fill = int(mapping.encode(np.array([number]))[0]) - first.domain.lower
    return Law(first.mechanism.channel(first.domain), missing=bit, fill=fill)
