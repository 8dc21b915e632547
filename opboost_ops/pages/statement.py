"""The ledger of a period: what left in it, what it cost, and who decided what."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from opboost_ops.config.policy import Policy
from opboost_ops.config.site import Site
from opboost_ops.display.blocks import (
    Block,
    Cell,
    Fact,
    Facts,
    Note,
    Table,
    count,
    moment,
    number,
    second,
)
from opboost_ops.exchange.audit import Action, Entry
from opboost_ops.exchange.party_state import open_state
from opboost_ops.pages.agreement_history import agreements_table
from opboost_ops.pages.deployment import Query, guarded
from opboost_ops.pages.period import Period, asked_for
from opboost_ops.privacy.accountant import accounts
from opboost_ops.privacy.ledger import Dated
from opboost_ops.privacy.statement import forecasts
from opboost_ops.views.audit_log import LogRead, log_of
from opboost_ops.views.ledger import LedgerView, ledger_of, sums_of
from opboost_ops.views.ledger_tables import exact_table
from opboost_ops.views.queries import queries

_REFUSALS: frozenset[Action] = frozenset({"refused", "rejected", "act_refused"})

Preamble = tuple[tuple[str, str], ...]


def _grown(then: float, now: float) -> float:
    return now if now == float("inf") else now - then


def build(site: Site, policy: Policy, query: Query) -> list[Block]:
    """A party's ledger in a period.

    Args:
        site: The party's.
        policy: Its policy.
        query: The period's days, and what the reader may see.
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
        guesses = queries(state, policy.alignment, view.columns)
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
            Cell(entry.action.replace("_", " "), state="bad" if entry.action in _REFUSALS else ""),
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
