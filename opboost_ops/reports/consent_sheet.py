"""The consent sheet: the terms that a party is asked to agree to, and their meaning for one person.

It is computed from the party's own files and the federation file only. Command line, page, JSON and
documents take their numbers and words from here.
"""

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime, timedelta
from functools import cached_property
from typing import Any, Literal

from opboost_ops.config.feature import SECONDS, Edges, Feature
from opboost_ops.config.federation import Federation
from opboost_ops.config.policy import FeatureRule, Policy
from opboost_ops.config.terms import Terms
from opboost_ops.privacy.consent.changes import Leaving, leaving
from opboost_ops.privacy.consent.compliance import MONTHS, all_features_limit, limits
from opboost_ops.privacy.consent.exposure import guesses_of
from opboost_ops.privacy.consent.guessing import Guess, Law, RecordGuess, guess_record
from opboost_ops.privacy.edge_charges import edges_costs
from opboost_ops.reports.display.blocks import finite

SetBy = Literal["init", "a person", "nobody"]


@dataclass(frozen=True)
class Cap:
    """A cap in ``policy.yaml``.

    Attributes:
        name: Its path in the file.
        value: The cap; None without one.
        set_by: ``init`` if the value is what `opboost init` writes for this declaration.
    """

    name: str
    value: float | None
    set_by: SetBy


@dataclass(frozen=True)
class ReleasedColumn:
    """A released column.

    Attributes:
        column: The charged item: a feature, or its missing bit.
        receiver: The receiving party.
        type: Declared type.
        bounds: Bounds in the feature's unit, or categories, in words.
        scale: Map onto the domain, in words.
        domain: Domain of the released values, in words.
        mechanism: Mechanism, in words.
        epsilon: Nominal epsilon.
        loss_1: loss(1) of a release.
        loss_whole: loss(R - L) of a release.
        releases: Number of releases that the budget allows; None without one.
        loss_whole_ever: loss(R - L) of all of them; infinite without a budget.
        guess: The receiver's success in guessing a value, including the feature's missing bit.
        yearly: True if it is released again each calendar year.
    """

    column: str
    receiver: str
    type: str
    bounds: str
    scale: str
    domain: str
    mechanism: str
    epsilon: float
    loss_1: float
    loss_whole: float
    releases: int | None
    loss_whole_ever: float
    guess: Guess
    yearly: bool = False


@dataclass(frozen=True)
class Totals:
    """The privacy cost of one person's record, over all columns.

    Attributes:
        loss_1, loss_whole: Losses of one release.
        loss_whole_ever: Loss of all releases that the budgets allow.
    """

    loss_1: float
    loss_whole: float
    loss_whole_ever: float


@dataclass(frozen=True)
class ConsentSheet:
    """The terms that a party is asked to agree to.

    Attributes:
        party: Name of the party.
        federation: Name of the federation.
        receiver: Name of the label holder.
        digest: Digest of the terms.
        terms: Purpose, end, frequency and retention.
        domain: Bounds of the domain.
        columns: Columns that are released randomised.
        exact: The party's releases without an epsilon: receiver, and what is disclosed.
        received: Releases to this party without an epsilon: sender, and what is disclosed.
        caps: Caps of the party's policy.
        laws: Output distributions of the features.
        edges: One-time loss of private edges, by feature.
        models: The guarantee of sums with noise, in words; empty without noise.
    """

    party: str
    federation: str
    receiver: str
    digest: str
    terms: Terms
    domain: tuple[int, int]
    columns: tuple[ReleasedColumn, ...]
    exact: tuple[tuple[str, str], ...]
    received: tuple[tuple[str, str], ...]
    caps: tuple[Cap, ...]
    laws: Mapping[str, Law]
    edges: Mapping[str, float] = field(default_factory=dict)
    models: str = ""

    @property
    def record(self) -> tuple[ReleasedColumn, ...]:
        """The columns without repeated charges, one per charge."""
        return tuple({line.column: line for line in self.columns}.values())

    @property
    def totals(self) -> Totals:
        """The cost of one person's record."""
        lines, edges = self.record, sum(self.edges.values())
        return Totals(
            sum(line.loss_1 for line in lines) + edges,
            sum(line.loss_whole for line in lines) + edges,
            sum(line.loss_whole_ever for line in lines) + edges,
        )

    @property
    def most_exposed(self) -> ReleasedColumn | None:
        """The column with the greatest gain of a guess over the prior; None without columns."""
        return max(self.guessed, key=lambda line: line.guess.gain, default=None)

    @property
    def refresh(self) -> str:
        """How often each value is released, in words."""
        yearly = [line.column for line in self.guessed if line.yearly]
        if not yearly:
            return "released once"
        if len(yearly) == len(self.guessed):
            return "released once per year"
        return f"released once; once per year: {', '.join(yearly)}"

    @property
    def guessed(self) -> tuple[ReleasedColumn, ...]:
        """The columns that are features; a missing bit is guessed together with its feature."""
        return tuple(line for line in self.record if line.column in self.laws)

    @cached_property
    def whole_record(self) -> RecordGuess | None:
        """The success in guessing a whole record; None if nothing is released."""
        lines = self.guessed
        if not lines:
            return None
        return guess_record([self.laws[line.column] for line in lines], [o.guess for o in lines])

    def document(self) -> dict[str, Any]:
        """Return the sheet as JSON; infinite losses are ``"inf"``."""
        record, worst = self.whole_record, self.most_exposed
        content = {
            "party": self.party,
            "federation": self.federation,
            "receiver": self.receiver,
            "digest": self.digest,
            "terms": self.terms.model_dump(mode="json"),
            "domain": list(self.domain),
            "prior": "uniform, columns independent; of_two, of_three: the worst prior over as many",
            "columns": [asdict(line) for line in self.columns],
            "exact": [{"receiver": to, "discloses": what} for to, what in self.exact],
            "received": [{"sender": sender, "discloses": what} for sender, what in self.received],
            "caps": [asdict(cap) for cap in self.caps],
            "models": self.models,
            "totals": asdict(self.totals),
            "most_exposed": None if worst is None else worst.column,
            "whole_record": None if record is None else asdict(record),
        }
        return dict(_plain(content))


def consent_sheet(
    federation: Federation,
    party: str,
    policy: Policy,
    digest: str,
    exact: Iterable[tuple[str, str, str]],
    models: str = "",
) -> ConsentSheet:
    """Build the sheet of a party from its own files and the federation file.

    Args:
        federation: The declaration.
        party: Name of the party.
        policy: The party's policy once it has agreed.
        digest: Digest of the terms.
        exact: Sender, receiver and content of each release without an epsilon.
        models: The guarantee of sums with noise, in words; empty without noise.
    """
    guesses = guesses_of(federation, party)
    releasing = leaving(federation, party)
    whole: dict[str, float] = {}
    for line in releasing:
        # A release discloses the value and its missing bit together.
        whole[line.feature] = whole.get(line.feature, 0.0) + float(line.curve.loss[-1])
    lines = [
        _released(federation, policy, line, guesses[line.feature][1], whole[line.feature])
        for line in releasing
    ]
    releases = list(exact)
    return ConsentSheet(
        party,
        federation.name,
        federation.label_holder,
        digest,
        federation.terms,
        (federation.domain.lower, federation.domain.upper),
        tuple(lines),
        tuple((to, what) for sender, to, what in releases if sender == party),
        tuple((sender, what) for sender, to, what in releases if to == party),
        tuple(_caps(federation, party, policy)),
        {name: law for name, (law, _) in guesses.items()},
        edges_costs(federation, party),
        models,
    )


def _released(
    federation: Federation, policy: Policy, line: Leaving, guess: Guess, whole: float
) -> ReleasedColumn:
    feature = federation.parties[line.party].features[line.feature]
    losses = [float(loss) for loss in line.curve.loss]
    rule = policy.features.get(line.feature, FeatureRule())
    releases = None if rule.budget is None else max(1, int(rule.budget / whole))
    missing = "=" in line.charge
    nominal = feature.type == "nominal"
    domain = feature.domain_in(federation.domain.to_domain())
    return ReleasedColumn(
        column=line.charge,
        receiver=line.receiver,
        type="missing or not" if missing else feature.type,
        bounds="missing, present" if missing else bounds_words(feature),
        scale="" if missing or nominal else _scale_words(feature),
        domain="0 or 1"
        if missing
        else f"a bit for each of {len(feature.categories or ())} categories"
        if nominal
        else f"integers {domain.lower} to {domain.upper}",
        mechanism=line.curve.mechanism,
        epsilon=line.epsilon,
        loss_1=losses[0],
        loss_whole=losses[-1],
        releases=releases,
        loss_whole_ever=losses[-1] * _times(releases),
        guess=guess,
        yearly=feature.refresh == "yearly",
    )


def bounds_words(feature: Feature) -> str:
    """Return a feature's bounds in its own unit, with dates as dates; or its categories."""
    if feature.categories is not None:
        return ", ".join(feature.categories)
    if feature.bounds is None:
        return ""
    lower, upper = feature.bounds
    plain = f"{lower:,.10g} to {upper:,.10g}"
    if feature.unit is None:
        return plain
    dates = [_date(bound * SECONDS[feature.unit]) for bound in (lower, upper)]
    return f"{dates[0]} to {dates[1]} ({plain} {feature.unit} since 1970-01-01, or a duration)"


def _date(seconds: float) -> str:
    try:
        moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=seconds)
    except OverflowError:
        return f"{seconds:g} s"
    if moment.hour or moment.minute or moment.second:
        return moment.isoformat(sep=" ", timespec="minutes").removesuffix("+00:00")
    return str(moment.date())


def _scale_words(feature: Feature) -> str:
    if isinstance(feature.scale, Edges):
        return f"edges {', '.join(f'{edge:g}' for edge in feature.scale.edges)}"
    return "in order" if feature.type == "ordinal" else feature.scale


def _caps(federation: Federation, party: str, policy: Policy) -> list[Cap]:
    caps: list[Cap] = []
    every: list[float | None] = []
    domain = {"lower": federation.domain.lower, "upper": federation.domain.upper}
    spec = federation.parties[party]
    if party not in federation.feature_holders:
        return caps
    edges = edges_costs(federation, party)
    for name, feature in spec.features.items():
        rule = policy.features.get(name, FeatureRule())
        usual = limits(feature.model_dump(mode="json"), domain, edges.get(name, 0.0))
        every.append(usual.get("budget"))
        if rule.budget is not None or "budget" in usual:
            path = f"features.{name}.budget"
            caps.append(Cap(path, rule.budget, _set_by(rule.budget, usual.get("budget"))))
    value = policy.all_features.budget
    caps.append(Cap("all_features.budget", value, _set_by(value, all_features_limit(every))))
    rules = policy.alignment
    month, ever = rules.max_new_queries, rules.max_queries_total
    usual_ever = None if month is None else MONTHS * month
    by: SetBy = "init" if month is not None and ever == usual_ever else _set_by(month, None)
    caps.append(Cap("alignment.max_new_queries", month, by))
    caps.append(Cap("alignment.max_queries_total", ever, _set_by(ever, usual_ever)))
    least = rules.least_rows.train
    caps.append(Cap("alignment.least_rows.train", least if least > 1 else None,
                     "a person" if least > 1 else "nobody"))  # fmt: skip
    return caps


def _set_by(value: float | None, usual: float | None) -> SetBy:
    if value is None:
        return "nobody"
    return "init" if value == usual else "a person"


def _times(releases: int | None) -> float:
    return float("inf") if releases is None else releases


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _plain(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(entry) for entry in value]
    return finite(value)
