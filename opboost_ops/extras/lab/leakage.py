"""Attacks on a party's own release before it is made, and their report."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from opboost_ops.config.columns import Column
from opboost_ops.config.loading import load_federation
from opboost_ops.exchange.files import integers
from opboost_ops.extras.lab.ranking import feature_holder, own_context
from opboost_ops.mechanisms import MissingBit, UnaryEncoding
from opboost_ops.mechanisms.noise import Words
from opboost_ops.mechanisms.release import randomise
from opboost_ops.pipeline.inputs.own_copy import borrowed
from opboost_ops.pipeline.inputs.raw_blocks import whole_table
from opboost_ops.pipeline.inputs.raw_table import domain_integers
from opboost_ops.pipeline.party.party_sites import federation_file
from opboost_ops.pipeline.stage import PartyContext
from opboost_ops.privacy import attacks
from opboost_ops.privacy.attacks import Attack, correlated
from opboost_ops.privacy.averaging import Retrainings, fresh_and_pinned, link
from opboost_ops.privacy.consent.exposure import guesses_of
from opboost_ops.privacy.consent.guessing import Guess
from opboost_ops.reports.display.charts import Curve, bars, chart
from opboost_ops.reports.display.html import charts_html

#: Number of retrainings over which responses are averaged.
TIMES = 30

#: Rows used for averaging, whose cost is rows x |D| x retrainings.
SAMPLE = 4000


@dataclass(frozen=True)
class Leakage:
    """All attacks on one party's release.

    Attributes:
        columns: Attacks by released column.
        averaging: Success after each retraining, by released column.
        linked: Attack that links two receivers' artifacts by all columns.
        stated: Guess rates in the consent sheet, by feature.
    """

    columns: Mapping[str, tuple[Attack, ...]]
    averaging: Mapping[str, Retrainings]
    linked: Attack
    stated: Mapping[str, Guess]

    @property
    def worst(self) -> tuple[str, Attack]:
        """The most successful attack, with its column."""
        every = [(name, attack) for name, attacks in self.columns.items() for attack in attacks]
        return max(every, key=lambda pair: pair[1].gain)

    def to_json(self) -> dict[str, Any]:
        """Return all attacks as a JSON object, for the party only."""
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


def attack_release(context: PartyContext) -> Leakage:
    """Attack the release that a party would make of its own table now; nothing is released.

    Numeric and ordinal columns are attacked. Bits of categories are not, because their loss already
    describes the best attack.

    Args:
        context: The party's context outside of any run.

    Raises:
        ContractError: The table does not fit its declaration.
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
    """Return the other column with the strongest correlation; None if there is none.

    Args:
        name: Name of the column.
        values: All columns, each of shape (n,).
    """
    own = values[name]
    strengths: dict[str, float] = {}
    for other, column in values.items():
        if other != name and own.std() > 0 and column.std() > 0:
            strengths[other] = abs(float(np.corrcoef(own, column)[0, 1]))
    return max(strengths, key=lambda n: strengths[n]) if strengths else None


@dataclass(frozen=True)
class Attacked:
    """The result of attacking a release that was never made.

    Attributes:
        party: The feature holder.
        attacks: All attacks.
        picture: An HTML page in the party's home.
    """

    party: str
    attacks: Leakage
    picture: Path

    def __repr__(self) -> str:
        name, worst = self.attacks.worst
        return f"Attacked({self.party}: {worst.name} on {name} gains {worst.gain:.3f})"

    def document(self) -> dict[str, Any]:
        """Return the result as a JSON object."""
        return {"party": self.party, **self.attacks.to_json(), "picture": str(self.picture)}


def leakage(federation: str | Path, party: str | None = None) -> Attacked:
    """Attack the release that a party would make now; report and picture stay in its home.

    Args:
        federation: ``federation.yaml``, or its folder.
        party: The feature holder. Default: the only one.

    Raises:
        ConfigError: The party or its site is unknown.
        ContractError: Its table does not fit its declaration.
    """
    file = federation_file(Path(federation))
    declared = load_federation(file)
    holder = feature_holder(declared, party)
    context = own_context(file, declared, holder)
    home = context.home
    with borrowed(context) as own_copy:
        result = attack_release(own_copy)
    home.write_json("leakage", result.to_json())
    picture = home.folder / "leakage.html"
    title = f"Attacks on the release of {holder} in {declared.name}"
    home.write(picture.name, leakage_report(title, result).encode())
    return Attacked(holder, result, picture)


def leakage_report(title: str, result: Leakage) -> str:
    """Plot attacks and guesses by column, and success over retrainings.

    Args:
        title: Title of the page.
        result: The attacks.
    """
    rows: list[tuple[str, float, int]] = []
    for name, tried in result.columns.items():
        rows.append((f"{name}: guessing the median", 100 * tried[0].baseline, 3))
        rows += [
            (f"{name}: {attack.name}", 100 * attack.success, i) for i, attack in enumerate(tried)
        ]
    caption = "Rows placed within 5 % of the domain"
    figures = [(caption, bars(rows, title=caption, unit=" %"))]
    if result.averaging:
        worst = max(result.averaging, key=lambda n: result.averaging[n].fresh[-1].success)
        curves = result.averaging[worst]
        times = len(curves.pinned)
        caption = f"Averaging over retrainings: {worst}, share of rows"
        picture = chart(
            [
                Curve(
                    "pinned responses (as released)",
                    [(t, a.success) for t, a in enumerate(curves.pinned, 1)],
                ),
                Curve(
                    "fresh noise at every run (not used)",
                    [(t, a.success) for t, a in enumerate(curves.fresh, 1)],
                ),
            ],
            title=caption,
            x_ticks=[(1.0, "1"), (float(times), str(times))],
            x_label="retrainings",
        )
        figures.append((caption, picture))
    lead = "What the next release would disclose. This page stays in the party's home."
    return charts_html(title, lead, figures)
