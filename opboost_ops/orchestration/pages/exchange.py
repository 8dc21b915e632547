"""The exchange page: who sent what to whom, and whether each artifact is verified."""

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import date, timedelta
from itertools import chain, islice
from operator import attrgetter

from opboost_ops.config.loading import site_of
from opboost_ops.config.policy import Policy
from opboost_ops.config.public_keys import PublicKeys
from opboost_ops.config.site import Site
from opboost_ops.exchange.audit import Entry
from opboost_ops.exchange.encryption import key_name
from opboost_ops.exchange.manifest import reference
from opboost_ops.exchange.party_state import agreements_of, open_state
from opboost_ops.orchestration.pages.access import Query, guarded, has_state
from opboost_ops.orchestration.pages.artifacts import LoggedRun, artifacts
from opboost_ops.pipeline.party import clock, trust
from opboost_ops.privacy.consent.agreements import Agreement
from opboost_ops.reports.audit_log import AuditLogView, Owner, log_of
from opboost_ops.reports.display.blocks import (
    Block,
    Cell,
    Fact,
    Facts,
    Note,
    Pager,
    Row,
    State,
    Table,
    moment,
    second,
)

#: Numbered entries of an audit log.
Entries = Sequence[tuple[int, Entry]]

#: Runs and log entries per page. All artifacts of the shown runs are read and verified.
_RUNS = 3

_ENTRIES = 20

_RUN = re.compile(r"[0-9a-f]{16}")

_SENT = "including answers"


def build(site: Site, policy: Policy, query: Query) -> list[Block]:
    """Return the blocks of a party's exchange page.

    Args:
        site: The party's site.
        policy: The party's policy.
        query: The content to show.
    """
    log = log_of(site)
    index = log.index
    mine = {owner: spans for owner, spans in index.owners.items() if _wanted(owner, query)}
    runs = [owner for owner in reversed(mine) if _RUN.fullmatch(owner[1])]
    page, pager = query.paged(runs, _RUNS)
    if query.whole:
        # A download of artifacts is limited to its page: reading all artifacts ever sent could take
        # arbitrarily long.
        page = runs[(query.page - 1) * _RUNS : query.page * _RUNS]
    spans = sorted(chain(*mine.values()), key=attrgetter("start"), reverse=True)
    numbers = [n for span in spans for n in reversed(span)]
    done = Counter(chain.from_iterable(index.actions[s.start - 1 : s.stop - 1] for s in spans))
    wrong = (n for n in numbers if index.actions[n - 1] == "rejected")
    rejected = [*islice(wrong, _ENTRIES)] if done["rejected"] else []
    listed, turned = query.paged(numbers, _ENTRIES, "entries")
    with open_state(site) as state:
        logs = [state.audit.numbered([*chain(*mine[owner])]) for owner in page]
        places = [_logged_run(owner, entries) for owner, entries in zip(page, logs, strict=True)]
        refused = state.audit.numbered(rejected)[::-1]
        entries = state.audit.numbered(listed)[::-1]
    blocks: list[Block] = [_facts(log, done, len(runs))]
    if log.failure:
        blocks.append(Note("bad", log.failure.problem, log.failure.remedy))
    blocks += rejections([entry for _, entry in refused])
    blocks += guarded(lambda: artifacts(site, policy, places, pager))
    blocks.append(_entries(entries, turned))
    blocks += guarded(lambda: [keys_table(site, policy, query.wants)])
    return blocks


def _wanted(owner: Owner, query: Query) -> bool:
    federation, rest = owner
    if not rest:
        # The rotation of a secret belongs to no federation.
        return query.federation is None and query.run is None
    return query.wants(federation, rest)


def _logged_run(owner: Owner, entries: Entries) -> LoggedRun:
    """Return a run of the log, with the newest entry about each artifact."""
    noted: dict[str, Entry] = {}
    for _, entry in reversed(entries):
        parts = entry.place.split("/")
        if len(parts) == 4 and entry.action in ("sent", "answered", "received"):
            noted.setdefault("/".join(parts[2:]), entry)
    return LoggedRun(*owner, noted)


def _facts(log: AuditLogView, done: Mapping[str, int], runs: int) -> Facts:
    rejected = done.get("rejected", 0)
    intact = log.failure is None
    whole = f"{log.count:,} entries, head {log.head[:16]}, all verified {second(log.at)} UTC"
    return Facts(
        (
            Fact(
                "Audit log",
                "unbroken" if intact else "broken",
                whole if intact else "see below",
                "good" if intact else "bad",
            ),
            Fact("Runs", f"{runs:,}"),
            Fact("Sent", f"{done.get('sent', 0) + done.get('answered', 0):,}", _SENT),
            Fact("Received", f"{done.get('received', 0):,}"),
            Fact("Rejected", f"{rejected:,}", state="bad" if rejected else ""),
        )
    )


def rejections(entries: Sequence[Entry]) -> list[Block]:
    """Return a table of rejected artifacts with reasons; empty if there are none.

    Args:
        entries: Entries of the audit log, newest first.
    """
    rejected = [entry for entry in entries if entry.action == "rejected"]
    if not rejected:
        return []
    rows = [
        (
            moment(entry.at),
            Cell(entry.place.split("/")[1], href=f"run?id={entry.place.split('/')[1]}"),
            entry.place.rpartition("/")[2],
            Cell(entry.detail.replace("_", " "), entry.detail, "bad"),
        )
        for entry in rejected[:_ENTRIES]
    ]
    note = "Nothing of a rejected artifact was used."
    columns = ("at (UTC)", "run", "stage", "reason")
    return [Table("rejected", "Rejected", columns, rows, note)]


def _entries(page: Entries, pager: Pager | None) -> Table:
    return Table(
        "log",
        "Audit log",
        ("#", "at (UTC)", "action", "place", "party", "artifact", "detail"),
        [
            (
                number,
                moment(entry.at),
                Cell(entry.action, state="bad" if entry.action == "rejected" else ""),
                entry.place,
                entry.party,
                Cell(entry.artifact[:12], entry.artifact, title=entry.artifact),
                entry.detail,
            )
            for number, entry in page
        ],
        "Each entry is chained to the one before it. Note the head of the chain elsewhere, to "
        "notice entries that were cut off its end.",
        pager=pager,
    )


def run_entries(party: str, federation: str, run: str) -> Entries:
    """Return a run's numbered entries of a party's audit log, oldest first.

    Args:
        party: Name of the party.
        federation: Name of the federation.
        run: Id of the run.
    """
    site, _ = site_of(party)
    if not has_state(site):
        return []
    start = reference(federation, run, "", "").rstrip("/")
    with open_state(site) as state:
        return state.audit.below(f"{start}/")


def run_blocks(party: str, federation: str, run: str, mine: Entries) -> list[Block]:
    """Return a run's exchange for the page of the run.

    Args:
        party: Name of the party.
        federation: Name of the federation.
        run: Id of the run.
        mine: The run's entries of the party's audit log.
    """
    site, policy = site_of(party)
    return [
        *rejections([entry for _, entry in reversed(mine)]),
        *artifacts(site, policy, [_logged_run((federation, run), mine)], None, ("run",)),
    ]


#: Time before its expiry at which a key is marked.
_EXPIRES_SOON = timedelta(days=14)

#: A text and its display state.
_StateText = tuple[str, State]


def keys_table(site: Site, policy: Policy, wanted: Callable[[str], bool]) -> Table:
    """Return the keys of the parties that a party deals with, by its newest agreements.

    Args:
        site: The party's site.
        policy: Its policy: a feature holder deals with the parties that it pins.
        wanted: Predicate of a federation's name: true if it is shown.
    """
    agreements = agreements_of(site)
    newest = {
        agreement.federation: agreement
        for agreement in agreements.agreements
        if agreement.withdrawn is None
    }
    rows: Sequence[Row] = [
        (name, party, *cells)
        for name, agreement in newest.items()
        if wanted(name)
        for party, spec in trust.keys_in(agreement).items()
        if party in {site.party, *policy.receivers} or _opens(site.party, agreement)
        for cells in _rows(spec, clock.today())
    ]
    note = "As agreed. `opboost keys show` prints a party's own; compare them over another channel."
    columns = ("federation", "party", "key", "for", "from", "until", "state")
    return Table("keys", "Keys", columns, rows, note, once=("federation",))


def _opens(party: str, agreement: Agreement) -> bool:
    spec = agreement.content["federation"]["parties"].get(party, {})
    return spec.get("role") in ("label_holder", "active", "passive")


def _rows(spec: PublicKeys, today: date) -> Iterator[Row]:
    first, last = spec.signing_key_from, spec.signing_key_expires
    yield _row(spec.signing_key, "signing", first, last, _state(first, last, today))
    if spec.encryption_key is not None:
        yield _row(spec.encryption_key, "encryption", None, None, ("good", "good"))
    for former in spec.former_keys:
        ended = former.until < today
        state = "ended" if ended else "replaced"
        yield _row(former.key, former.use, None, former.until, (state, "muted"))
    for key in spec.revoked_keys:
        yield _row(key, "", None, None, ("revoked", "bad"))


def _state(first: date | None, last: date | None, today: date) -> _StateText:
    if first is not None and today < first:
        return "not yet", "muted"
    if last is None:
        return "good", "good"
    if today > last:
        return "expired", "bad"
    return ("expires soon", "warn") if last - today <= _EXPIRES_SOON else ("good", "good")


def _row(key: str, use: str, first: date | None, last: date | None, shown: _StateText) -> Row:
    name, (text, state) = Cell(key_name(key), key, title=key), shown
    return name, use, str(first or ""), str(last or ""), Cell(text, state=state)
