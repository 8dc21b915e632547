"""Exposure by a party's release, from attacks that it runs on itself before it releases."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from opboost_ops.config.columns import Column
from opboost_ops.exchange.encoding import integers
from opboost_ops.mechanisms import MissingBit, UnaryEncoding
from opboost_ops.mechanisms.noise import Words
from opboost_ops.mechanisms.release import randomise
from opboost_ops.pipeline.inputs.domain_integers import domain_integers
from opboost_ops.pipeline.inputs.raw_blocks import whole_table
from opboost_ops.pipeline.stage import Context
from opboost_ops.privacy import attacks
from opboost_ops.privacy.attacks import Attack, correlated
from opboost_ops.privacy.averaging import Retrainings, fresh_and_pinned, link
from opboost_ops.privacy.consent.exposure import guesses_of
from opboost_ops.privacy.consent.guessing import Guess

#: Retrainings over which averaging is tried.
TIMES = 30

#: Rows on which averaging is tried: its cost is rows x |D| x retrainings.
SAMPLE = 4000


@dataclass(frozen=True)
class Leakage:
    """All attacks on one party's release.

    Attributes:
        columns: Attacks by released column.
        averaging: Success by retraining, by released column.
        linked: Linking two receivers' artifacts by all columns together.
        stated: By feature, the guess rates that the consent sheet states.
    """

    columns: Mapping[str, tuple[Attack, ...]]
    averaging: Mapping[str, Retrainings]
    linked: Attack
    stated: Mapping[str, Guess]

    @property
    def worst(self) -> tuple[str, Attack]:
        """The column and attack that gain most."""
        every = [(name, attack) for name, attacks in self.columns.items() for attack in attacks]
        return max(every, key=lambda pair: pair[1].gain)

    def to_json(self) -> dict[str, Any]:
        """For programs, at the party."""
        name, attack = self.worst
        return {
            "columns": {n: [_entry(a) for a in result] for n, result in self.columns.items()},
            "averaging": {
                n: {
                    "pinned": [a.success for a in result.pinned],
                    "fresh": [a.success for a in result.fresh],
                }
                for n, result in self.averaging.items()
            },
            "linked": _entry(self.linked),
            "stated": {
                name: {"guess": guess.after, "of_two": guess.of_two, "of_three": guess.of_three}
                for name, guess in self.stated.items()
            },
            "worst": {"column": name, **_entry(attack)},
        }


def leakage(context: Context) -> Leakage:
    """Attack the release that a party would make of its own table now; nothing is released.

    Numeric and ordinal columns are attacked; single bits of categories are not: what they tell is
    their loss.

    Args:
        context: The party's, of no run.

    Raises:
        ContractError: The table does not keep its declaration.
    """
    frame = whole_table(context)
    table = domain_integers(context.federation, context.party, frame)
    columns = [c for c in context.columns() if not isinstance(c.mechanism, UnaryEncoding)]
    numeric = [c for c in columns if not isinstance(c.mechanism, MissingBit)]
    values = {c.name: integers(table, c.source) for c in columns}

    def release(column: Column) -> np.ndarray:
        return randomise(values[column.name], column.mechanism, column.domain, Words.fresh())

    mine = {c.name: release(c) for c in columns}
    theirs = {c.name: release(c) for c in numeric}
    by_column: dict[str, tuple[Attack, ...]] = {}
    averaged: dict[str, Retrainings] = {}
    some = np.unique(np.linspace(0, frame.height - 1, SAMPLE).astype(np.int64))
    for column in columns:
        channel = column.mechanism.channel(column.domain)
        own, out = values[column.name], mine[column.name]
        near = attacks.tolerance_of(column.domain)
        marginal = attacks.marginal_of(own, channel)
        tried = [attacks.guess(own, out, channel, marginal, near)]
        if column in numeric:
            tried.append(attacks.rank_match(own, out, near))
            partner = most_correlated(column.name, {c.name: values[c.name] for c in numeric})
            if partner is not None:
                tried.append(correlated(own, out, values[partner], channel, near))
            averaged[column.name] = fresh_and_pinned(
                own[some],
                column.mechanism,  # type: ignore[arg-type]
                column.domain,
                TIMES,
                marginal,
            )
        by_column[column.name] = tuple(tried)
    channels = [c.mechanism.channel(c.domain) for c in numeric]
    linked = link(
        [mine[c.name] for c in numeric],
        [theirs[c.name] for c in numeric],
        channels,
        channels,
        [
            attacks.marginal_of(values[c.name], channel)
            for c, channel in zip(numeric, channels, strict=True)
        ],
    )
    guesses = guesses_of(context.federation, context.party)
    stated = {name: guess for name, (_, guess) in guesses.items()}
    return Leakage(by_column, averaged, linked, stated)


def _entry(attack: Attack) -> dict[str, Any]:
    return {**asdict(attack), "gain": attack.gain, "verdict": attack.verdict}


def most_correlated(name: str, values: Mapping[str, np.ndarray]) -> str | None:
    """The other column that goes most with a column; None if there is none.

    Args:
        name: The column's.
        values: All columns, each of shape (n,).
    """
    own = values[name]
    strengths: dict[str, float] = {}
    for other, column in values.items():
        if other != name and own.std() > 0 and column.std() > 0:
            strengths[other] = abs(float(np.corrcoef(own, column)[0, 1]))
    return max(strengths, key=lambda n: strengths[n]) if strengths else None
