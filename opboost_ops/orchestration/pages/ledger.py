"""The privacy ledger's pages: a party's releases and budgets, and the statement of a period."""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, time, timedelta
from functools import cached_property
from urllib.parse import urlencode

from opboost_ops.config.agreement import differences
from opboost_ops.config.policy import Policy
from opboost_ops.config.site import Site
from opboost_ops.errors import ArtifactError, ContractError
from opboost_ops.exchange.audit import Action, Entry
from opboost_ops.exchange.party_state import PartyState, agreements_of, open_state
from opboost_ops.orchestration.pages.access import Query, guarded, parties
from opboost_ops.privacy.ledger.entries import Dated
from opboost_ops.reports import ledger_tables
from opboost_ops.reports.audit_log import AuditLogView, log_of
from opboost_ops.reports.display.blocks import (
    Block,
    Cell,
    Fact,
    Facts,
    Fold,
    Note,
    Table,
    moment,
    number,
    second,
)
from opboost_ops.reports.display.html import Filter
from opboost_ops.reports.ledger import LedgerView, charged, ledger_of, planned, queries, sum_of
from opboost_ops.reports.ledger_tables import exact_table, history, loss_curves

#: Entries per page.
_LINES = 20

#: Length in days of a period without a first day.
DAYS = 30

Preamble = tuple[tuple[str, str], ...]

_REFUSALS: frozenset[Action] = frozenset({"refused", "rejected", "act_refused"})

#: Maximum number of changes per line; `opboost agree` shows all.
_MAX_CHANGES = 6


def build(site: Site, policy: Policy, query: Query) -> list[Block]:
    """Return the blocks of a party's ledger, or of its statement of a period.

    Args:
        site: The party's site.
        policy: The party's policy.
        query: The content to show.
    """
    if query.since or query.until:
        return statement(site, policy, query)
    view = ledger_of(site, policy)
    with open_state(site) as state:
        return _party_blocks(state, site, view, policy, query)


def _party_blocks(
    state: PartyState, site: Site, view: LedgerView, policy: Policy, query: Query
) -> list[Block]:
    visible = {name for name in view.federations if name == "all" or query.sees(name)}
    dated = [(at, line) for at, line in view.entries if line.federation in visible]
    refused = _refusals(state, query)
    if not dated:
        return [
            *refused,
            *_planned_costs(state, site, view, query),
            *_agreed_terms(state, query.sees),
        ]
    wanted = {name for name in visible if name == "all" or query.wants(name, query.run)}
    shown = [
        (at, line)
        for at, line in dated
        if line.federation in wanted and query.run in (None, line.run)
    ]
    # Budgets span all federations: a user who may not see one must not see a too high remainder.
    lines = view.of(visible)
    waiting = [line for line in view.waiting if line.federation in visible]
    blocks: list[Block] = ledger_tables.warnings(waiting, dated)
    blocks += [*refused, *_lost_pins(state, {line.feature for line in lines})]
    if query.run is None:
        blocks += ledger_tables.open_notes(policy, lines)
    if lines:
        blocks.append(ledger_tables.totals(lines, view, dated))
        blocks.append(ledger_tables.columns_table(lines))
        curves = (r for r in view.protected if r.federation in wanted)
        plotted = curves if query.run is None else (release for _, release in shown)
        pictures = (history(view.heights, lines), loss_curves(plotted))
        blocks += _folded("Charges in pictures", pictures, query)
    blocks += queries(state, policy.alignment, wanted)
    blocks += _agreed_terms(state, wanted.__contains__)
    if any(line.account == "model" for _, line in dated):
        blocks += ledger_tables.models_blocks(view.entries, shown, policy.model_budget)
    blocks.append(ledger_tables.exact_table(shown))
    return [*blocks, *_folded("All entries", (entries(shown, query, view),), query)]


def _folded(title: str, blocks: tuple[Block, ...], query: Query) -> tuple[Block, ...]:
    """Fold details if the page shows several parties, so that each party's budget comes first."""
    return blocks if query.party or len(parties()) == 1 else (Fold(title, blocks),)


def entries(dated: Sequence[Dated], query: Query, view: LedgerView) -> Table:
    """Return a page of ledger entries, newest first.

    Args:
        dated: The entries, oldest first.
        query: The content to show.
        view: The ledger.
    """
    page, pager = query.paged(dated[::-1], _LINES, "entries")
    table = ledger_tables.entries_table(page, {release.artifact for release in view.waiting})
    return replace(table, pager=pager, once=("federation", "run") if query.run else table.once)


def _lost_pins(state: PartyState, features: set[str]) -> list[Block]:
    """Return a note on pins that the ledger records but that are missing."""
    behind = sorted({lost.feature for lost in state.releases.lost()} & features)
    if not behind:
        return []
    text = "Pins are lost."
    remedy = "Restore the newest pins, or see `opboost ledger check`: no run releases until then."
    return [Note("bad", text, remedy, (", ".join(behind),))]


def _planned_costs(state: PartyState, site: Site, view: LedgerView, query: Query) -> list[Block]:
    """Return the expected costs of the agreed columns, before any run."""
    agreements = state.agreements.read()
    agreements_in_force = [
        agreements.newest(name)
        for name in sorted({agreement.federation for agreement in agreements.agreements})
    ]
    standing = [
        agreement
        for agreement in agreements_in_force
        if agreement is not None and query.sees(agreement.federation)
    ]
    lines = planned(standing, site, view.policy, view)
    text = "Nothing was released yet."
    if not lines:
        return [Note("muted", text)]
    return [
        Note("", text, "The party has agreed to these columns:"),
        ledger_tables.columns_table(lines, planned=True),
    ]


def _agreed_terms(state: PartyState, sees: Callable[[str], bool]) -> list[Block]:
    """Return the terms of the newest agreement with each federation."""
    try:
        entries = state.audit.of("agreed")
    except ArtifactError:
        return []  # The damaged log is reported above.
    last = {entry.place.partition("/")[0]: entry.detail for entry in entries}
    lines = [f"{name}: {detail}" for name, detail in last.items() if sees(name)]
    return [Note("", "What the party agreed to", "", lines)] if lines else []


def _refusals(state: PartyState, query: Query) -> list[Block]:
    """Return a table of releases that the party's own budget refused."""
    try:
        entries = state.audit.of("refused")
    except ArtifactError:
        return [Note("bad", "The audit log is damaged: refused releases cannot be listed.")]
    rows = []
    for entry in reversed(entries):
        federation, run, stage = entry.place.split("/")
        if query.wants(federation, run):
            what = Cell(stage.replace("_", " "), state="bad")
            link = Cell(run, href=f"run?id={run}")
            rows.append((what, link, federation, moment(entry.at), entry.detail))
    if not rows:
        return []
    heads = ("refused at", "run", "federation", "at (UTC)", "why")
    note = "Each was refused before it was charged, and before it left the party."
    page = tuple(rows if query.whole else rows[:_LINES])
    return [Table("refused", "Refused releases", heads, page, note, once=("federation",))]


@dataclass(frozen=True)
class Period:
    """A period of days in UTC, both ends included."""

    first: date
    last: date

    @cached_property
    def begin(self) -> str:
        """The first moment, in the format of ledger and log."""
        return datetime.combine(self.first, time(), UTC).isoformat(timespec="seconds")

    @cached_property
    def end(self) -> str:
        """The first moment after the period."""
        after = datetime.combine(self.last + timedelta(days=1), time(), UTC)
        return after.isoformat(timespec="seconds")

    @property
    def words(self) -> str:
        """The period for display."""
        return f"{self.first} to {self.last}"

    def has(self, at: str) -> bool:
        """True if a UTC time in the format of ledger and log is within the period."""
        return self.begin <= at < self.end


def period_of(query: Query) -> Period:
    """Return the period of a query.

    Raises:
        ContractError: A date is invalid, or the period ends before it begins.
    """
    try:
        last = date.fromisoformat(query.until) if query.until else datetime.now(UTC).date()
        first = date.fromisoformat(query.since) if query.since else last - timedelta(days=DAYS - 1)
    except (ValueError, OverflowError):
        raise ContractError(
            "A date of this period is invalid.", "Write it as 2026-01-31."
        ) from None
    if first > last:
        raise ContractError("This period ends before it begins.", "Swap the dates.")
    return Period(first, last)


def fields(query: Query) -> tuple[Filter, Filter]:
    """Return the form fields of a period."""
    return (
        Filter("since", "First day", "date", shown=query.since),
        Filter("until", "Last day", "date", shown=query.until),
    )


def period_links(query: Query) -> list[tuple[str, str]]:
    """Return links to common periods, the last night and three months: text and query string."""
    filters = {"party": query.party, "federation": query.federation}
    filters = {name: value for name, value in filters.items() if value}
    last = datetime.now(UTC).date()
    night = {"since": last - timedelta(days=1), "until": last}
    links = [("Last night", urlencode({**filters, **night}))]
    for _ in range(3):
        first = last.replace(day=1)
        links.append((f"{first:%B %Y}", urlencode({**filters, "since": first, "until": last})))
        last = first - timedelta(days=1)
    return links


def _growth(then: float, now: float) -> float:
    return now if now == float("inf") else now - then


def statement(site: Site, policy: Policy, query: Query) -> list[Block]:
    """Return the blocks of a party's statement of a period.

    Args:
        site: The party's site.
        policy: The party's policy.
        query: The days of the period.
    """
    period = period_of(query)
    view, log = ledger_of(site, policy), log_of(site)
    # Budgets span all federations: a statement of only some would understate the cost.
    if any(name != "all" and not query.sees(name) for name in view.federations):
        text = "This statement is of all federations of the party, and you may not see one of them."
        return [Note("muted", text)]
    inside = [(at, line) for at, line in view.entries if period.begin <= at < period.end]
    head = "broken" if log.failure else log.head
    preamble = (
        ("party", site.party),
        ("first day (UTC)", str(period.first)),
        ("last day (UTC)", str(period.last)),
        ("audit log, entries", str(log.count)),
        ("audit log, head", head),
        ("audit log, verified (UTC)", second(log.at)),
    )
    remedy = "`opboost audit show` says where; this statement cannot be compared with it."
    broken = [] if log.count else [Note("bad", "The audit log is broken, or empty.", remedy)]
    with open_state(site) as state:
        guesses = queries(state, policy.alignment, view.federations)
    return [
        *broken,
        _period_facts(period, view, inside, log),
        _columns_table(period, view, inside, preamble),
        _exact_table(inside, preamble),
        *guesses,
        _decisions_table([entry for entry in log.decided if period.has(entry.at)], preamble),
        *guarded(lambda: [agreements_table(site, query)]),
    ]


def _period_facts(
    period: Period, view: LedgerView, inside: Sequence[Dated], log: AuditLogView
) -> Facts:
    then, now = (sum_of(view.before(at)) for at in (period.begin, period.end))
    runs = {(line.federation, line.run) for _, line in inside if line.run}
    facts = [
        Fact("Period (UTC)", period.words, "both days included"),
        Fact("Runs", f"{len(runs):,}"),
        Fact("Ledger entries", f"{len(inside):,}", "each is one thing that left, or one release"),
    ]
    hint = f"loss, all columns: from {number(then).text} to {number(now).text}, at most"
    facts.append(Fact("One person was charged", number(_growth(then, now)).text, hint))
    if spent := view.models_epsilon(period.end):
        before = view.models_epsilon(period.begin)
        hint = f"from {before:.3f} to {spent:.3f}, at most"
        facts.append(Fact("Models: epsilon, a row replaced", f"{spent - before:.3f}", hint))
    head = "broken" if log.failure else log.head
    hint = f"{log.count:,} entries, verified {second(log.at)} UTC: {head}"
    return Facts((*facts, Fact("Audit log's head", head[:16], hint)))


def _columns_table(
    period: Period, view: LedgerView, inside: Sequence[Dated], preamble: Preamble
) -> Table:
    new, until = charged(line for _, line in inside), view.before(period.end)
    opened = Counter(line.column for _, line in inside if line.opens_release)
    names = {line.column: (line.feature, line.budget) for line in view.lines}
    rows = []
    for column, spent in until.items():
        feature, budget = names.get(column, (column, None))
        rows.append(
            (
                feature,
                column,
                opened[column],
                float(new.get(column, 0)),
                float(spent),
                number(budget),
            )
        )
    heads = ("feature", "raw column", "charges in the period", "loss in the period")
    ends = ("loss at its end", "budget today")
    note = "The worst case for one person: each release is charged once, when it opens."
    empty = "No release had opened by the end of the period."
    title = "What each column has cost in the period"
    return Table("statement", title, (*heads, *ends), rows, note, empty, preamble=preamble)


def _exact_table(inside: Sequence[Dated], preamble: Preamble) -> Table:
    title = "Disclosed exactly in the period, with no epsilon"
    return replace(exact_table(inside, title), name="told", preamble=preamble)


def _decisions_table(entries: Sequence[Entry], preamble: Preamble) -> Table:
    rows = [
        (
            moment(entry.at),
            Cell(entry.action.replace("_", " "), state="bad" if entry.action in _REFUSALS else ""),
            entry.place,
            entry.party,
            entry.detail,
        )
        for entry in entries
    ]
    heads = ("at (UTC)", "what", "where", "party", "detail")
    note = ", ".join(f"{n} {action}" for action, n in Counter(e.action for e in entries).items())
    title, empty = "What was decided", "Nothing was decided."
    return Table("decisions", title, heads, rows, note, empty, preamble=preamble)


def agreements_table(site: Site, query: Query) -> Table:
    """Return all visible agreements of a party, newest first.

    Args:
        site: The party's site.
        query: The content to show.
    """
    all_agreements = agreements_of(site)
    agreements = all_agreements.agreements
    rows = []
    for agreement in reversed(agreements):
        if not query.sees(agreement.federation):
            continue
        earlier = [
            a
            for a in agreements
            if a.federation == agreement.federation and a.number < agreement.number
        ]
        before = earlier[-1].content.get("federation") if earlier else None
        changes = differences(before, agreement.content.get("federation")) if earlier else ()
        names = [path for path, _, _ in changes]
        more = f", and {len(names) - _MAX_CHANGES} more" if len(names) > _MAX_CHANGES else ""
        what = f"{', '.join(names[:_MAX_CHANGES])}{more}" if earlier else "all of it: the first"
        state = Cell("superseded")
        if agreement.withdrawn is not None:
            state = Cell(f"withdrawn {moment(agreement.withdrawn).text}", state="warn")
        elif agreement == all_agreements.newest(agreement.federation):
            state = Cell("in force", state="good")
        rows.append(
            (
                agreement.number,
                agreement.federation,
                moment(agreement.at),
                state,
                Cell(agreement.digest[:16], agreement.digest, title=agreement.digest),
                Cell(what or "nothing but the software", "; ".join(names) or what),
            )
        )
    return Table(
        "agreements",
        "Agreements, all of them",
        ("number", "federation", "agreed (UTC)", "state", "digest", "what it changed"),
        rows,
        "A training run must use the newest one of its federation; `opboost agree` shows what a "
        "new federation file would change, and what that costs.",
        "The party has agreed to nothing.",
    )
