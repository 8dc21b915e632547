"""The exchange's page: who sent what to whom, and whether it is what it claims to be."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from opboost_ops.config.loading import site_of
from opboost_ops.config.policy import Policy
from opboost_ops.config.site import Site
from opboost_ops.errors import ArtifactError
from opboost_ops.exchange.audit import Entry
from opboost_ops.exchange.books import open_books
from opboost_ops.exchange.manifest import reference
from opboost_ops.pages.artifacts import Place, artifacts
from opboost_ops.pages.blocks import Block, Cell, Fact, Facts, Note, Table, count, moment
from opboost_ops.pages.deployment import Query, guarded, has_books, of_books
from opboost_ops.pages.keys import keys_table

#: Runs and log entries on a page. All artifacts of a shown run are read and verified.
_RUNS = 3
_ENTRIES = 20

_RUN = re.compile(r"[0-9a-f]{16}")

Numbered = Sequence[tuple[int, Entry]]


def build(party: str, query: Query) -> list[Block]:
    """A party's side of the exchange.

    Args:
        party: Whose.
        query: What is asked for.
    """
    absent = "Nothing was exchanged yet: the party has no audit log."
    return of_books(party, absent, lambda site, policy: _page(party, site, policy, query))


def _page(party: str, site: Site, policy: Policy, query: Query) -> list[Block]:
    chain, entries = _log(site)
    entries = [(n, e) for n, e in entries if _wanted(e, query)]
    runs = _runs(entries)
    page, pager = query.paged(runs, _RUNS)
    if query.whole:
        # A download of artifacts holds what its page shows: reading all ever sent has no bound.
        page = runs[(query.page - 1) * _RUNS : query.page * _RUNS]
    blocks: list[Block] = [_facts(chain, entries, len(runs))]
    if chain.failure:
        blocks.append(Note("bad", chain.failure.problem, chain.failure.remedy))
    blocks += rejections([entry for _, entry in entries])
    blocks += guarded(lambda: artifacts(party, site, policy, page, pager))
    blocks.append(_entries(entries, query))
    blocks += guarded(lambda: [keys_table(site, policy, query.wants)])
    return blocks


@dataclass(frozen=True)
class _Chain:
    count: int
    head: str
    failure: ArtifactError | None = None


def _log(site: Site) -> tuple[_Chain, list[tuple[int, Entry]]]:
    """The audit log, newest first, and whether its chain is unbroken."""
    entries: list[tuple[int, Entry]] = []
    chain: _Chain
    with open_books(site) as books:
        try:
            chain = _Chain(*books.audit.verify())
            entries = [(number, entry) for number, entry, _ in books.audit.entries()]
        except ArtifactError as error:
            # What stands before the break is shown; a damaged entry cannot be.
            chain = _Chain(0, "", error)
            try:
                for number, entry, _ in books.audit.entries():
                    entries.append((number, entry))
            except ArtifactError:
                pass
    return chain, entries[::-1]


def _wanted(entry: Entry, query: Query) -> bool:
    federation, _, rest = entry.place.partition("/")
    if not rest:
        # A rotated secret is of no federation.
        return query.federation is None and query.run is None
    return query.wants(federation, rest.partition("/")[0])


def _runs(entries: Numbered) -> list[Place]:
    """Runs of the log, newest first."""
    found: dict[tuple[str, str], dict[str, Entry]] = {}
    for _, entry in entries:
        parts = entry.place.split("/")
        if len(parts) < 3 or not _RUN.fullmatch(parts[1]):
            # An agreement has a place, too, and is no run.
            continue
        noted = found.setdefault((parts[0], parts[1]), {})
        if len(parts) == 4 and entry.action in ("sent", "answered", "received"):
            noted.setdefault("/".join(parts[2:]), entry)
    return [Place(federation, run, noted) for (federation, run), noted in found.items()]


def _facts(chain: _Chain, entries: Numbered, runs: int) -> Facts:
    actions = [entry.action for _, entry in entries]
    sent = sum(action in ("sent", "answered") for action in actions)
    rejected = actions.count("rejected")
    intact = chain.failure is None
    return Facts(
        (
            Fact(
                "Audit log",
                "unbroken" if intact else "broken",
                f"{chain.count:,} entries, head {chain.head[:16]}" if intact else "see below",
                "good" if intact else "bad",
            ),
            Fact("Runs", f"{runs:,}"),
            Fact("Sent", f"{sent:,}", "answers among them"),
            Fact("Received", f"{actions.count('received'):,}"),
            Fact("Rejected", f"{rejected:,}", state="bad" if rejected else ""),
        )
    )


def rejections(entries: Sequence[Entry]) -> list[Block]:
    """What was refused, and why; nothing if nothing was.

    Args:
        entries: Of the audit log, newest first.
    """
    found = [entry for entry in entries if entry.action == "rejected"]
    if not found:
        return []
    rows = tuple(
        (
            moment(entry.at),
            Cell(entry.place.split("/")[1], href=f"run?id={entry.place.split('/')[1]}"),
            Cell(entry.place.rpartition("/")[2]),
            Cell(entry.detail.replace("_", " "), entry.detail, "bad"),
        )
        for entry in found[:_ENTRIES]
    )
    note = "Nothing of a rejected artifact was used."
    columns = ("at (UTC)", "run", "stage", "reason")
    return [Table("rejected", "Rejected", columns, rows, note)]


def _entries(entries: Numbered, query: Query) -> Table:
    page, pager = query.paged(entries, _ENTRIES, "entries")
    return Table(
        "log",
        "Audit log",
        ("#", "at (UTC)", "action", "place", "party", "detail", "artifact"),
        tuple(
            (
                count(number),
                moment(entry.at),
                Cell(entry.action, state="bad" if entry.action == "rejected" else ""),
                Cell(entry.place),
                Cell(entry.party),
                Cell(entry.detail),
                Cell(entry.artifact[:12], entry.artifact, title=entry.artifact),
            )
            for number, entry in page
        ),
        "Each entry is chained to the one before it. Note the head of the chain elsewhere: only "
        "then can entries that were cut off its end be noticed.",
        pager=pager,
    )


def run_blocks(party: str, federation: str, run: str) -> list[Block]:
    """One run's part of the exchange, for the page of a run.

    Args:
        party: Whose view.
        federation: The run's federation.
        run: Its id.
    """
    site, policy = site_of(party)
    mine: list[tuple[int, Entry]] = []
    if has_books(site):
        start = reference(federation, run, "", "").rstrip("/")
        with open_books(site) as books:
            mine = books.audit.below(f"{start}/")[::-1]
    places = _runs(mine) or [Place(federation, run, {})]
    return [
        *rejections([entry for _, entry in mine]),
        *artifacts(party, site, policy, places, None),
    ]
