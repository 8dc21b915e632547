"""A statement of a period: what a party released in it, what that cost, and who decided what."""

from collections import Counter
from collections.abc import Mapping, Sequence
from uuid import UUID

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
from opboost_ops.pages.agreement_history import agreements_table
from opboost_ops.pages.deployment import Query, guarded, of_books
from opboost_ops.pages.kept_ledger import LedgerRead, ledger_of
from opboost_ops.pages.kept_log import log_of
from opboost_ops.pages.kinds import kind_words
from opboost_ops.pages.period import Period, asked_for, sums
from opboost_ops.privacy.accountant import Account, model_epsilon
from opboost_ops.privacy.lines import Lines
from opboost_ops.privacy.statement import exact_counted, forecasts_of

_BAD: tuple[Action, ...] = ("refused", "rejected", "act_refused")


def build(party: str, query: Query) -> list[Block]:
    """A party's statement.

    Args:
        party: Whose.
        query: What is asked for, with the period's days.
    """
    absent = "Nothing was released yet: the party has no ledger."
    return of_books(party, absent, lambda site, policy: _page(party, site, policy, query))


def _page(party: str, site: Site, policy: Policy, query: Query) -> list[Block]:
    period = asked_for(query)
    ledger, log = ledger_of(site), log_of(site)
    # Budgets are for all federations: a statement of a part of them would say too little.
    if any(name != "all" and not query.sees(name) for name in ledger.federations):
        told = "This statement is of all federations of the party, and you may not see one of them."
        return [Note("muted", told)]
    inside = ledger.lines.between(period.begin, period.end)
    head = (log.count, "broken" if log.failure else log.head)
    preamble = (
        ("party", party),
        ("first day (UTC)", str(period.first)),
        ("last day (UTC)", str(period.last)),
        ("audit log, entries", str(head[0])),
        ("audit log, head", head[1]),
        ("audit log, verified (UTC)", second(log.at)),
    )
    decided = [entry for entry in log.decided if period.has(entry.at)]
    return [
        *([] if head[0] else [Note("bad", "The audit log is broken, or empty.", _BROKEN)]),
        _facts(period, ledger, inside, head, log.at),
        _columns(period, ledger, inside.accounts, policy, preamble),
        _exact(inside, preamble),
        _decisions(decided, preamble),
        *guarded(lambda: [agreements_table(site, query)]),
    ]


_BROKEN = "`opboost audit verify` says where; this statement cannot be held against it."


def _facts(
    period: Period,
    ledger: LedgerRead,
    inside: Lines,
    head: tuple[int, str],
    at: str,
) -> Facts:
    then, now = (sums(ledger.before(moment)) for moment in (period.begin, period.end))
    each = zip(inside.forms, inside.runs, strict=True)
    runs = {(form.line.federation, run) for form, run in each if run}
    facts = [
        Fact("Period (UTC)", period.words, "both days included"),
        Fact("Runs", f"{len(runs):,}"),
        Fact("Ledger lines", f"{len(inside):,}", "each is one thing that left, or one draw"),
    ]
    for end, label in enumerate(("loss(1)", "loss(R-L)")):
        hint = f"from {number(then[end]).text} to {number(now[end]).text}, worst case"
        grown = number(now[end] - then[end] if now[end] != float("inf") else now[end]).text
        facts.append(Fact(f"A person was charged: {label}", grown, hint))
    drawn = ledger.lines.of_forms(lambda line: line.account == "model")
    models = drawn.between("", period.end)
    if models:
        before = model_epsilon(r for made, r in models if made < period.begin)
        spent = [float(before), float(model_epsilon(r for _, r in models))]
        hint = f"from {spent[0]:.3f} to {spent[1]:.3f}, worst case"
        facts.append(Fact("Models: epsilon", f"{spent[1] - spent[0]:.3f}", hint))
    told = f"{head[0]:,} entries, verified {second(at)} UTC: {head[1]}"
    facts.append(Fact("Audit log's head", head[1][:16], told))
    return Facts(tuple(facts))


def _columns(
    period: Period,
    ledger: LedgerRead,
    mine: Mapping[UUID, Account],
    policy: Policy,
    preamble: tuple[tuple[str, str], ...],
) -> Table:
    then = ledger.before(period.begin)
    rows = []
    for uuid, found in forecasts_of(ledger.before(period.end), policy).items():
        account = found.account
        old = then.get(uuid)
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
    heads = (
        "feature",
        "draws in the period",
        "loss(1) in the period",
        "loss(R-L) in the period",
        "loss(1) at its end",
        "budget(1) today",
        "loss(R-L) at its end",
        "budget(R-L) today",
        "column",
    )
    note = (
        "The worst case, from public facts alone, for a person at whom every value changed: "
        "loss(1) for a move by one step of the domain, loss(R-L) for one across it."
    )
    return Table(
        "statement",
        "What each feature has cost",
        heads,
        tuple(rows),
        note,
        "No randomised cell had left by the end of the period.",
        preamble=preamble,
    )


def _exact(inside: Lines, preamble: tuple[tuple[str, str], ...]) -> Table:
    rows = tuple(
        (count(line.times), Cell(kind_words(line.kind)), Cell(line.receiver), Cell(line.discloses))
        for line in exact_counted(inside.counted)
    )
    heads = ("times", "what", "told to", "what it discloses")
    note = "None of this is differentially private, and no budget limits it."
    title = "Told exactly in the period, with no epsilon"
    return Table("told", title, heads, rows, note, "Nothing.", preamble=preamble)


def _decisions(entries: Sequence[Entry], preamble: tuple[tuple[str, str], ...]) -> Table:
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
    found = ", ".join(f"{n} {action}" for action, n in Counter(e.action for e in entries).items())
    title = "What was decided"
    return Table("decisions", title, heads, rows, found, "Nothing was decided.", preamble=preamble)
