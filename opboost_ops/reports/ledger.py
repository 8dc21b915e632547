"""The view of a party's privacy ledger: the cost of each column, and of another release.

Status, ledger and run pages, `status.json` and `opboost ledger show` take their numbers,
words and thresholds from here.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import date
from fractions import Fraction
from functools import cached_property
from itertools import pairwise
from typing import Any, Literal

from opboost_ops.config.agreement import federation_of
from opboost_ops.config.policy import AlignmentRules, Policy
from opboost_ops.config.site import Site
from opboost_ops.exchange.party_state import PartyState, open_state
from opboost_ops.privacy.consent.agreements import Agreement, Agreements
from opboost_ops.privacy.declarations import Loss, declarations, exact
from opboost_ops.privacy.ledger.budgets import (
    ModelAccount,
    account_of,
    budget_of,
    remaining_models,
    total,
)
from opboost_ops.privacy.ledger.entries import Dated, LedgerEntry, exact_disclosures
from opboost_ops.privacy.release_records import Release, spent_by_column
from opboost_ops.reports.display.blocks import Block, Note, State, finite


def queries(state: PartyState, rules: AlignmentRules, federations: Collection[str]) -> list[Block]:
    """Return a note on the number of queried people and its caps; empty without queries.

    Args:
        state: The party's state.
        rules: Alignment rules of the party's policy.
        federations: Names of the shown federations. A label holder of one of them is counted over
            all its federations, as its caps are.
    """
    lines = [
        f"{asker.receiver}: {asker.counted.epoch:,} different people in "
        f"{asker.epoch} ({_cap(rules.max_new_queries)}), {asker.counted.ever:,} in all months "
        f"({_cap(rules.max_queries_total)})"
        for asker in state.query_counts.answered()
        if not asker.federations.isdisjoint(federations)
    ]
    text = "People queried by label holders: each query can test a guess of who is in this table."
    return [Note("", text, "", lines)] if lines else []


def _cap(most: int | None) -> str:
    return "no cap" if most is None else f"at most {most:,}"


#: Maximum number of points in time in a plot of charges.
_POINTS = 40


@dataclass(frozen=True)
class ColumnLine:
    """The releases of a feature to one receiver, and their cost.

    Attributes:
        kind: ``values`` of people, or ``edges`` that were drawn from them once.
        feature: Its name in the federation.
        column: Name of the raw column, which the budget is for.
        receiver: The receiving party.
        releases: Days on which releases opened, oldest first.
        loss: Loss of one release: loss(R - L) of the value and of the missing bit.
        spent: Loss of the raw column over all features, receivers and releases.
        budget: Budget of the raw column; None without one.
        since: Date since which its values are unchanged; None without an open release.
    """

    kind: Literal["values", "edges"]
    feature: str
    column: str
    receiver: str
    releases: tuple[date, ...]
    loss: Loss
    spent: Loss
    budget: float | None
    since: date | None

    @property
    def more(self) -> int | None:
        """Number of further releases that fit the budget; None without one."""
        if self.budget is None:
            return None
        left = Fraction(self.budget) - self.spent
        if left <= 0 or not self.loss:
            return 0
        return int(left // self.loss)

    @property
    def document(self) -> dict[str, Any]:
        """The line as JSON."""
        return {
            "feature": self.feature,
            "column": self.column,
            "receiver": self.receiver,
            "releases": [day.isoformat() for day in self.releases],
            "loss": finite(float(self.loss)),
            "spent": finite(float(self.spent)),
            "budget": self.budget,
            "since": self.since.isoformat() if self.since else None,
        }


@dataclass(frozen=True)
class RemainingReleases:
    """The number of further releases that the tightest of some columns' budgets allows.

    Attributes:
        more: Number of further releases; None without a budget.
        feature: The column with the tightest budget; empty without one.
        hint: The budget and its use, in words; empty before the first release.
    """

    more: int | None = None
    feature: str = ""
    hint: str = ""

    @property
    def text(self) -> str:
        """The number for display."""
        return "no budget" if self.more is None else f"{self.more:,}"

    @property
    def state(self) -> State:
        """Display state; a spent budget is no alarm, because retraining costs nothing."""
        return "muted" if self.more is None else "good"


def remaining_releases(lines: Iterable[ColumnLine]) -> RemainingReleases:
    """Return the releases that the tightest budget of some columns still allows."""
    values = [line for line in lines if line.kind == "values"]
    limited = [line for line in values if line.more is not None]
    if not limited:
        return RemainingReleases(hint="policy.yaml sets no budget" if values else "")
    first = min(limited, key=lambda line: line.more or 0)
    hint = (
        f"{first.feature}: {float(first.spent):.3f} of {first.budget:g} spent, one release costs "
        f"{float(first.loss):.3f}; retraining costs nothing"
    )
    return RemainingReleases(first.more, first.feature, hint)


@dataclass(frozen=True)
class LedgerView:
    """A party's ledger at the time of reading.

    Attributes:
        entries: All entries, oldest first.
        waiting: Entries of artifacts that may not have been published.
        policy: The party's policy.
        releases: The party's releases.
    """

    entries: Sequence[Dated]
    waiting: Sequence[LedgerEntry]
    policy: Policy
    releases: Sequence[Release] = ()

    @cached_property
    def federations(self) -> Mapping[str, set[str]]:
        """Ids of the releases that each federation used; possibly empty."""
        by_federation: dict[str, set[str]] = defaultdict(set)
        for _, entry in self.entries:
            ids = by_federation[entry.federation]
            if entry.release is not None:
                ids.add(entry.release)
        return by_federation

    @cached_property
    def lines(self) -> list[ColumnLine]:
        """All columns and receivers."""
        return self.of(self.federations)

    @property
    def models(self) -> ModelAccount:
        """The total cost of all differentially private models."""
        return account_of((entry for _, entry in self.entries), self.policy.model_budget)

    def document(self) -> dict[str, Any]:
        """Return the JSON document of `opboost ledger show --json`."""
        entries, budget = [entry for _, entry in self.entries], self.policy.model_budget
        models = {
            **self.models.document,
            "budget": budget and budget.model_dump(),
            "more": budget and remaining_models(entries, budget),
        }
        return {
            "columns": [line.document for line in self.lines],
            "exact": [asdict(line) for line in exact_disclosures(entries)],
            "models": [models] if any(e.account == "model" for e in entries) else [],
        }

    def of(self, federations: Collection[str]) -> list[ColumnLine]:
        """Return the columns that some federations use."""
        ids = set().union(*(self.federations.get(name, ()) for name in federations))
        groups: dict[tuple[Literal["values", "edges"], str, str, str], list[Release]] = {}
        for release in self.releases:
            if release.id in ids:
                place = (release.kind, release.feature, release.column, release.receiver)
                groups.setdefault(place, []).append(release)
        spent = spent_by_column(self.releases)
        lines = []
        # Edges are drawn before any value is released, and come last.
        for (kind, feature, column, receiver), group in sorted(
            groups.items(), key=lambda item: item[0][0] == "edges"
        ):
            open_since = [release.opened for release in group if not release.ended]
            lines.append(
                ColumnLine(
                    kind,
                    feature,
                    column,
                    receiver,
                    tuple(release.opened for release in group),
                    group[-1].loss,
                    spent[column],
                    budget_of(self.policy, column),
                    open_since[-1] if open_since else None,
                )
            )
        return lines

    def left(self, federation: str) -> RemainingReleases:
        """Return the releases that a federation's budgets still allow."""
        return remaining_releases(self.of([federation]))

    def before(self, moment: str) -> dict[str, Loss]:
        """Return the cost of each raw column before a time in the ledger's format."""
        return charged(entry for at, entry in self.entries if at < moment)

    @cached_property
    def protected(self) -> Sequence[LedgerEntry]:
        """The last entry with a loss curve of each column and feature, oldest first."""
        latest: dict[tuple[str | None, str | None], LedgerEntry] = {}
        for _, entry in self.entries:
            if entry.loss is not None:
                latest.pop((entry.column, entry.feature), None)
                latest[entry.column, entry.feature] = entry
        return [*latest.values()]

    def models_epsilon(self, end: str = "") -> float:
        """Return the epsilon of all private models, for one replaced row, before a time."""
        inside = (entry for at, entry in self.entries if not end or at < end)
        return float(account_of(inside, self.policy.model_budget).replaced)

    @cached_property
    def heights(self) -> Sequence[tuple[str, Mapping[str, float]]]:
        """The cost of each raw column at some times, from the first entry to the last."""
        times = [at for at, _ in self.entries]
        ends = [i for i in range(len(times)) if i + 1 == len(times) or times[i + 1] != times[i]]
        every = max(1, -(-len(ends) // _POINTS))
        # The first entry is always included, whatever the step.
        wanted = sorted({ends[0], *ends[::-1][::every]}) if ends else []
        so_far: dict[str, Loss] = {}
        points = []
        for before, end in pairwise((-1, *wanted)):
            new = charged(entry for _, entry in self.entries[before + 1 : end + 1])
            for column, loss in new.items():
                so_far[column] = so_far.get(column, Fraction(0)) + loss
            points.append((times[end], {c: float(loss) for c, loss in so_far.items()}))
        return points


def charged(entries: Iterable[LedgerEntry]) -> dict[str, Loss]:
    """Return the charges of entries by raw column; an entry that opens a release is charged."""
    charges: dict[str, Loss] = {}
    for entry in entries:
        if entry.opens_release and entry.loss is not None and entry.column is not None:
            loss = exact(entry.loss.loss[-1])
            charges[entry.column] = charges.get(entry.column, Fraction(0)) + loss
    return charges


def sum_of(spent: Mapping[str, Loss]) -> float:
    """Return the sum over all raw columns, a person's worst case.

    Args:
        spent: Cost by raw column.
    """
    return float(total(list(spent.values())))


def ledger_of(site: Site, policy: Policy) -> LedgerView:
    """Return a party's current ledger."""
    with open_state(site) as state:
        ledger = state.ledger
        return LedgerView(ledger.dated(), ledger.uncommitted(), policy, state.releases.all())


def ledger_of_run(state: PartyState, policy: Policy, federation: str, run: str) -> LedgerView:
    """Return the view of a run's entries, without reading the whole ledger.

    Args:
        state: The party's state.
        policy: The party's policy.
        federation: Name of the federation.
        run: Id of the run.
    """
    ledger, this = state.ledger, (federation, run)
    waiting = [entry for entry in ledger.uncommitted() if (entry.federation, entry.run) == this]
    return LedgerView(ledger.of_run(federation, run), waiting, policy, state.releases.all())


def planned(
    agreements: Iterable[Agreement], site: Site, policy: Policy, view: LedgerView
) -> list[ColumnLine]:
    """Return agreed columns that no run has released yet.

    Args:
        agreements: The agreements in force.
        site: The party's site.
        policy: The party's policy.
        view: The party's ledger.
    """
    lines = []
    spent = spent_by_column(view.releases)
    for agreed in agreements:
        federation = federation_of(agreed.content)
        if federation is None or site.party not in federation.parties:
            continue
        for declaration in declarations(federation, site.party, policy, site).values():
            cost, budget = (
                spent.get(declaration.column, Fraction(0)),
                budget_of(policy, declaration.column),
            )
            receiver = federation.label_holder
            lines.append(
                ColumnLine(
                    "values",
                    declaration.feature,
                    declaration.column,
                    receiver,
                    (),
                    declaration.loss,
                    cost,
                    budget,
                    None,
                )
            )
    return lines


def lines_of(
    agreements: Agreements, view: LedgerView, site: Site, federation: str
) -> list[ColumnLine]:
    """Return a federation's columns; before its first release, the agreed ones.

    Args:
        agreements: The party's agreements.
        view: The party's ledger.
        site: The party's site.
        federation: Name of the federation.
    """
    newest = agreements.newest(federation)
    return view.of([federation]) or planned([newest] if newest else [], site, view.policy, view)
