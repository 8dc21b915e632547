"""The privacy ledger's page: what a party released, what it cost, and what is left."""

from collections.abc import Callable, Sequence
from dataclasses import replace

from opboost_ops.config.policy import Policy
from opboost_ops.config.site import Site
from opboost_ops.errors import ArtifactError
from opboost_ops.exchange.party_state import PartyState, open_state
from opboost_ops.orchestration.pages import statement
from opboost_ops.orchestration.pages.access import Query, parties
from opboost_ops.privacy.ledger.entries import Dated
from opboost_ops.reports import ledger_tables
from opboost_ops.reports.display.blocks import Block, Cell, Fold, Note, Table, moment
from opboost_ops.reports.ledger import LedgerView, ledger_of, planned, queries
from opboost_ops.reports.ledger_figures import history, loss_curves

#: How many entries a page shows.
_LINES = 20


def build(site: Site, policy: Policy, query: Query) -> list[Block]:
    """A party's ledger, or its statement of a period.

    Args:
        site: The party's.
        policy: Its policy.
        query: What is asked for.
    """
    if query.since or query.until:
        return statement.build(site, policy, query)
    view = ledger_of(site, policy)
    with open_state(site) as state:
        return _blocks(state, site, view, policy, query)


def _blocks(
    state: PartyState, site: Site, view: LedgerView, policy: Policy, query: Query
) -> list[Block]:
    visible = {name for name in view.federations if name == "all" or query.sees(name)}
    dated = [(at, line) for at, line in view.entries if line.federation in visible]
    refused = _refusals(state, query)
    if not dated:
        return [*refused, *_planned(state, site, view, query), *_agreed(state, query.sees)]
    wanted = {name for name in visible if name == "all" or query.wants(name, query.run)}
    shown = [
        (at, line)
        for at, line in dated
        if line.federation in wanted and query.run in (None, line.run)
    ]
    # Budgets are for all federations: who may not see one of them is not shown that more is left.
    lines = view.of(visible)
    waiting = [line for line in view.waiting if line.federation in visible]
    blocks: list[Block] = ledger_tables.warnings(waiting, dated)
    blocks += [*refused, *_lost(state, {line.feature for line in lines})]
    if query.run is None:
        blocks += ledger_tables.open_notes(policy, lines)
    if lines:
        blocks.append(ledger_tables.totals(lines, view, dated))
        blocks.append(ledger_tables.columns_table(lines))
        curves = (r for r in view.protected if r.federation in wanted)
        drawn = curves if query.run is None else (release for _, release in shown)
        pictures = (history(view.heights, lines), loss_curves(drawn))
        blocks += _folded("Charges in pictures", pictures, query)
    blocks += queries(state, policy.alignment, wanted)
    blocks += _agreed(state, wanted.__contains__)
    if any(line.account == "model" for _, line in dated):
        blocks += ledger_tables.models_blocks(view.entries, shown, policy.model_budget)
    blocks.append(ledger_tables.exact_table(shown))
    return [*blocks, *_folded("All entries", (entries(shown, query, view),), query)]


def _folded(title: str, blocks: tuple[Block, ...], query: Query) -> tuple[Block, ...]:
    """Details fold where several parties stand on the page: first what each has left."""
    return blocks if query.party or len(parties()) == 1 else (Fold(title, blocks),)


def entries(dated: Sequence[Dated], query: Query, view: LedgerView) -> Table:
    """Ledger entries on a page, newest first.

    Args:
        dated: The entries, oldest first.
        query: What is asked for.
        view: Of the ledger.
    """
    page, pager = query.paged(dated[::-1], _LINES, "entries")
    table = ledger_tables.entries_table(page, {release.artifact for release in view.waiting})
    return replace(table, pager=pager, once=("federation", "run") if query.run else table.once)


def _lost(state: PartyState, features: set[str]) -> list[Block]:
    """A note of pins that the ledger knows and that are gone."""
    behind = sorted({lost.feature for lost in state.releases.lost()} & features)
    if not behind:
        return []
    text = "Pins are lost."
    remedy = "Restore the newest pins, or see `opboost ledger check`: no run releases until then."
    return [Note("bad", text, remedy, (", ".join(behind),))]


def _planned(state: PartyState, site: Site, view: LedgerView, query: Query) -> list[Block]:
    """Before any run: what the agreed columns will cost."""
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


def _agreed(state: PartyState, sees: Callable[[str], bool]) -> list[Block]:
    """The terms of the last agreement of each federation when the party made it."""
    try:
        entries = state.audit.of("agreed")
    except ArtifactError:
        return []  # The damaged log is told of above.
    last = {entry.place.partition("/")[0]: entry.detail for entry in entries}
    lines = [f"{name}: {detail}" for name, detail in last.items() if sees(name)]
    return [Note("", "What the party agreed to", "", lines)] if lines else []


def _refusals(state: PartyState, query: Query) -> list[Block]:
    """Releases that the party's own budget refused."""
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
