"""The statement of a period: is a federation on and worth it, what left, and who decided what."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial

from opboost_ops.config.loading import site_of
from opboost_ops.config.policy import Policy
from opboost_ops.config.site import Site
from opboost_ops.display.blocks import (
    Block,
    Cell,
    Fact,
    Facts,
    Heading,
    Note,
    State,
    Table,
    count,
    moment,
    number,
    second,
)
from opboost_ops.errors import ArtifactError
from opboost_ops.exchange.audit import Action, Entry
from opboost_ops.exchange.party_state import open_state
from opboost_ops.models.versions import Version
from opboost_ops.pages import airflow, airflow_dags
from opboost_ops.pages.aftermath import champion_of
from opboost_ops.pages.agreement_history import agreements_table
from opboost_ops.pages.deployment import (
    Query,
    federations,
    guarded,
    has_state,
    parties,
)
from opboost_ops.pages.period import Period, asked_for
from opboost_ops.privacy.accountant import accounts
from opboost_ops.privacy.budgets import forecast_of_all
from opboost_ops.privacy.ledger import Dated
from opboost_ops.privacy.statement import forecasts
from opboost_ops.views.audit_log import LogRead, log_of
from opboost_ops.views.ledger import LedgerView, ledger_of, left_of, sums_of
from opboost_ops.views.ledger_tables import exact_table, left_cell
from opboost_ops.views.queries import queries

#: Incidents that are listed, and parties named with their shares in one figure.
_INCIDENTS = 20
_NAMED = 4

_BAD: Mapping[Action, str] = {
    "refused": "a release was refused",
    "rejected": "an artifact was rejected",
    "act_refused": "an admin action was refused",
}

Preamble = tuple[tuple[str, str], ...]


@dataclass
class Federation:
    """A federation in a period, over all parties of the deployment.

    Attributes:
        name: Its name.
        period: The period.
        costs: A row for each party: what it has cost, and what is left.
        incidents: When, what, run, and more.
        faults: What cannot be read.
    """

    name: str
    period: Period
    costs: list[tuple[Cell, ...]] = field(default_factory=list)
    incidents: list[tuple[str, str, str, str]] = field(default_factory=list)
    faults: list[Block] = field(default_factory=list)


def blocks(query: Query) -> list[Block]:
    """A summary of each federation.

    Args:
        query: What is asked for, with the period's days.
    """
    period = asked_for(query)
    names = [name for name in federations(query) if query.federation in (None, name)]
    if not names:
        return [Note("muted", "You may not see any federation of this deployment.")]
    made: list[Block] = []
    for name in names:
        made.append(Heading(f"{name}, {period.words}"))
        made += guarded(partial(_summary, Federation(name, period), query))
    return made


def _summary(found: Federation, query: Query) -> list[Block]:
    facts = []
    for purpose in airflow.PURPOSES:
        facts += _on(found, purpose, query.dags(found.name, purpose))
    for party in parties():
        # The fault of one party spares the others.
        found.faults += guarded(partial(_party, party, found))
    champion = champion_of(found.name)
    figures = Facts((*facts, *_worth(champion)))
    return [figures, _cost(found), *found.faults, _incidents(found)]


def _on(found: Federation, purpose: str, dags: Sequence[str]) -> list[Fact]:
    begin, end = (datetime.fromisoformat(at) for at in (found.period.begin, found.period.end))
    runs = airflow.runs(dags, within=(begin, end))
    for run in runs:
        if run.state == "failed" and (at := run.ended or run.began):
            why = _why(run, own=dags[0])
            what = f"a run has failed: {airflow.PURPOSES[purpose]}"
            found.incidents.append((at.isoformat(timespec="seconds"), what, run.run, why))
    last = airflow.runs(dags, states=["success"], limit=1)
    if purpose != "train" and not runs and not last:
        # Where nothing was ever scored, scoring is no news.
        return []
    made = airflow_dags.schedules(dags)
    ahead = min((one.next_run for one in made if one.next_run), default=None)
    ended = (last[0].ended or last[0].began) if last else None
    failed = sum(run.state == "failed" for run in runs)
    words = airflow.PURPOSES[purpose]
    when = f"next run {ahead:%Y-%m-%d %H:%M} UTC" if ahead else "no next run is planned"
    success = f"last success {ended:%Y-%m-%d}" if ended else "no success yet"
    state: State = "good" if ended and ahead else "warn" if purpose == "train" else ""
    bad: State = "bad" if failed else ""
    on = "on" if ahead else "paused" if any(one.paused for one in made) else "by hand"
    if airflow_dags.faulty(found.name):
        on, state, when = "no", "bad", "the federation file is faulty"
    return [
        Fact(words.capitalize(), on, f"{success}; {when}", state),
        Fact(f"{words.capitalize()} runs", f"{len(runs):,}", f"{failed:,} failed", bad),
    ]


def _why(run: airflow.AirflowRun, own: str) -> str:
    """What the first of its failed tasks says; elsewhere than in our own DAG only a party's."""
    failed = (t for t in airflow.tasks(run) if t.state == "failed" and (t.party or run.dag == own))
    first = next(failed, None)
    return run.name if first is None else f"{first.title}: {first.problem}".partition("\n")[0]


def _worth(found: Version | None) -> list[Fact]:
    if found is None:
        return [Fact("What is it worth", "unknown", "the label holder has the model", "muted")]
    facts = []
    if (judged := found.judged()) is not None:
        span = "" if judged.low is None else f"95 %: {judged.low:.3f} to {judged.high:.3f}"
        facts.append(Fact(f"The model's {found.main}", f"{judged.value:.3f}", span))
    gain = found.gains.get(found.main)
    if gain is not None and gain.low is not None and gain.high is not None:
        # An interval that holds zero does not show that the others' columns are worth anything.
        shown = gain.low > 0
        span = f"95 %: {gain.low:+.3f} to {gain.high:+.3f}"
        span += "" if shown else "; it includes zero: no gain is shown"
        state: State = "good" if shown else "warn"
        facts.append(Fact("Gain over alone", f"{gain.value:+.3f}", span, state))
    if brought := [*found.shares_by_party.items()]:
        party, share = brought[0]
        rest = ", ".join(f"{name} {100 * of:.1f} %" for name, of in brought[1:_NAMED])
        rest += ", others less" if len(brought) > _NAMED else ""
        facts.append(Fact("Columns that bring most", f"{party} {100 * share:.1f} %", rest))
    return facts


def _party(party: str, found: Federation) -> list[Block]:
    """Add a party's row of costs, and what went wrong at it."""
    site, policy = site_of(party)
    if found.name not in site.tables or not has_state(site):
        return []
    view = ledger_of(site, policy)
    until = view.before(found.period.end)
    then, now = sums_of(view.before(found.period.begin)), sums_of(until)
    mine = view.columns.get(found.name, set())
    own = [one for uuid, one in forecasts(until, policy).items() if uuid in mine]
    dated = [one for one in view.entries if one[0] < found.period.end]
    left = left_of(own, dated, forecast_of_all(until, own, policy.all_features))
    found.costs.append(
        (
            Cell(party, href=f"ledger?party={party}"),
            *(number(_grown(a, b)) for a, b in zip(then, now, strict=True)),
            number(now[0]),
            number(now[1]),
            number(policy.all_features.budget_whole),
            left_cell(left) if own else Cell("", ""),
            Cell(left.hint if own else "no protected column was released"),
        )
    )
    with open_state(site) as state:
        try:
            entries = state.audit.of(*_BAD)
        except ArtifactError:
            entries = []
    for entry in entries:
        parts = entry.place.split("/")
        if found.period.has(entry.at) and parts[0] == found.name and len(parts) > 1:
            what, more = f"{party}: {_BAD[entry.action]}", entry.detail.replace("_", " ")
            found.incidents.append((entry.at, what, parts[1], more))
    return []


def _grown(then: float, now: float) -> float:
    return now if now == float("inf") else now - then


def _cost(found: Federation) -> Table:
    sums = ("loss(1) in these days", "loss(R-L) in these days", "loss(1) in all")
    heads = ("party", *sums, "loss(R-L) in all", "budget(R-L), a person", "retrainings left")
    note = "A person's worst case, over all federations: one step, loss(1); the domain, loss(R-L)."
    title = "What it has cost in privacy, and what is left"
    name = f"cost_{found.name}"[:40]
    rows = tuple(found.costs)
    return Table(name, title, (*heads, "which budget, and then"), rows, note, federation=found.name)


def _incidents(found: Federation) -> Table:
    ordered = sorted(found.incidents, reverse=True)
    note = f"{len(ordered):,} in these days" if ordered else ""
    if len(ordered) > _INCIDENTS:
        note += f"; the {_INCIDENTS} newest are shown"
    rows = tuple(
        (moment(at), Cell(what), Cell(run, href=f"run?id={run}"), Cell(more))
        for at, what, run, more in ordered[:_INCIDENTS]
    )
    empty = "No run has failed, and nothing was refused or rejected."
    heads, name = ("at (UTC)", "what", "run", "more"), f"incidents_{found.name}"[:40]
    return Table(name, "Incidents", heads, rows, note, empty, federation=found.name)


def build(site: Site, policy: Policy, query: Query) -> list[Block]:
    """A party's statement.

    Args:
        site: The party's.
        policy: Its policy.
        query: What is asked for, with the period's days.
    """
    period = asked_for(query)
    view, log = ledger_of(site, policy), log_of(site)
    # Budgets are for all federations: a statement of a part of them would say too little.
    if any(name != "all" and not query.sees(name) for name in view.columns):
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
        guesses = queries(state, policy.alignment, view.entries, view.columns)
    return [
        *broken,
        _facts(period, view, inside, log),
        _columns(period, view, inside, preamble),
        _exact(inside, preamble),
        *guesses,
        _decisions([entry for entry in log.decided if period.has(entry.at)], preamble),
        *guarded(lambda: [agreements_table(site, query)]),
    ]


def _facts(period: Period, view: LedgerView, inside: Sequence[Dated], log: LogRead) -> Facts:
    then, now = (sums_of(view.before(at)) for at in (period.begin, period.end))
    runs = {(line.federation, line.run) for _, line in inside if line.run}
    facts = [
        Fact("Period (UTC)", period.words, "both days included"),
        Fact("Runs", f"{len(runs):,}"),
        Fact("Ledger entries", f"{len(inside):,}", "each is one thing that left, or one draw"),
    ]
    for end, label in enumerate(("loss(1)", "loss(R-L)")):
        hint = f"from {number(then[end]).text} to {number(now[end]).text}, worst case"
        grown = number(_grown(then[end], now[end])).text
        facts.append(Fact(f"A person was charged: {label}", grown, hint))
    if spent := view.models_epsilon(period.end):
        before = view.models_epsilon(period.begin)
        hint = f"from {before:.3f} to {spent:.3f}, worst case"
        facts.append(Fact("Models: epsilon", f"{spent - before:.3f}", hint))
    head = "broken" if log.failure else log.head
    hint = f"{log.count:,} entries, verified {second(log.at)} UTC: {head}"
    return Facts((*facts, Fact("Audit log's head", head[:16], hint)))


def _columns(
    period: Period, view: LedgerView, inside: Sequence[Dated], preamble: Preamble
) -> Table:
    then, mine = view.before(period.begin), accounts(line for _, line in inside)
    rows = []
    for uuid, found in forecasts(view.before(period.end), view.policy).items():
        account, old = found.account, then.get(uuid)
        rows.append(
            (
                Cell(found.feature),
                count(mine[uuid].releases if uuid in mine else 0),
                number(float(account.step) - (float(old.step) if old else 0.0)),
                number(float(account.whole) - (float(old.whole) if old else 0.0)),
                number(float(account.step)),
                number(found.rule.budget_1),
                number(float(account.whole)),
                number(found.rule.budget_whole),
                Cell(str(uuid)),
            )
        )
    period_heads = ("draws in the period", "loss(1) in the period", "loss(R-L) in the period")
    ends = ("loss(1) at its end", "budget(1) today", "loss(R-L) at its end", "budget(R-L) today")
    note = (
        "The worst case, from public facts alone, for a person at whom every value changed: "
        "loss(1) for a move by one step of the domain, loss(R-L) for one across it."
    )
    empty = "No randomised cell had left by the end of the period."
    heads = ("feature", *period_heads, *ends, "column")
    title = "What each feature has cost in the period"
    return Table("statement", title, heads, tuple(rows), note, empty, preamble=preamble)


def _exact(inside: Sequence[Dated], preamble: Preamble) -> Table:
    title = "Disclosed exactly in the period, with no epsilon"
    return replace(exact_table(inside, title), name="told", preamble=preamble)


def _decisions(entries: Sequence[Entry], preamble: Preamble) -> Table:
    rows = tuple(
        (
            moment(entry.at),
            Cell(entry.action.replace("_", " "), state="bad" if entry.action in _BAD else ""),
            Cell(entry.place),
            Cell(entry.party),
            Cell(entry.detail),
        )
        for entry in entries
    )
    heads = ("at (UTC)", "what", "where", "party", "detail")
    note = ", ".join(f"{n} {action}" for action, n in Counter(e.action for e in entries).items())
    title, empty = "What was decided", "Nothing was decided."
    return Table("decisions", title, heads, rows, note, empty, preamble=preamble)
