"""A party's audit log, read and verified as a whole, with an index by federation and run."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from sys import intern

from opboost_ops.config.site import Site
from opboost_ops.errors import ArtifactError
from opboost_ops.exchange.audit import ACTIONS, Action, Entry, LogRow, parse, verified
from opboost_ops.exchange.party_state import open_state
from opboost_ops.privacy.ledger.tables import now

#: Beginning of an entry as this software writes it, with sorted keys; its place comes last.
_BEGIN, _PLACE, _END = '{"action":"', '"place":"', '"}'

#: Actions of normal runs; statements list all others, which a person decided or which failed.
_DAILY: tuple[Action, ...] = ("sent", "received", "answered")
_BEGINS = tuple(f'{_BEGIN}{action}"' for action in _DAILY)

#: The first two parts of a place: a federation, and a run or another subject.
Owner = tuple[str, str]


@dataclass(frozen=True)
class EntryIndex:
    """The action of each log entry, and the entries of each federation and run.

    Attributes:
        actions: Actions; entry ``n`` has index ``n - 1``.
        owners: Entry numbers by federation and run, oldest first; ordered by the newest entry.
            Entries without a federation have an empty second part.
    """

    actions: Sequence[str]
    owners: Mapping[Owner, Sequence[range]]


class AuditLogView:
    """An audit log at the time of its verification; immutable.

    Args:
        at: Time of the verification (UTC).
        rows: All entries; only those before the first unreadable one if the chain is broken.
        head: Hash of the last entry; empty if the chain is broken.
        failure: Where the chain is broken, if it is.
    """

    def __init__(
        self, at: str, rows: Sequence[LogRow], head: str, failure: ArtifactError | None = None
    ) -> None:
        self.at = at
        self.count = 0 if failure else len(rows)
        self.head = head
        self.failure = failure
        others = [row for row in rows if not row[1].startswith(_BEGINS)]
        entries = [] if failure else [parse(number, text) for number, text, _ in others]
        #: The entries that a statement lists, oldest first.
        self.decided: Sequence[Entry] = [e for e in entries if e.action not in _DAILY]
        self._texts = [text for _, text, _ in rows]

    @cached_property
    def index(self) -> EntryIndex:
        """Index of the entries by federation and run."""
        return _index_entries(self._texts)


def log_of(site: Site) -> AuditLogView:
    """Read and verify a party's audit log, from its first entry to its last."""
    at = now()
    with open_state(site) as state:
        rows = state.audit.rows()
    try:
        _, head = verified(rows)
    except ArtifactError as error:
        # Entries before the damaged one can still be shown.
        return AuditLogView(at, _readable_rows(rows), "", error)
    return AuditLogView(at, rows, head)


def _readable_rows(rows: Sequence[LogRow]) -> Sequence[LogRow]:
    """Return the entries before the first unreadable one."""
    for at, (number, text, _) in enumerate(rows):
        try:
            parse(number, text)
        except ArtifactError:
            return rows[:at]
    return rows


def _index_entries(texts: Sequence[str]) -> EntryIndex:
    actions: list[str] = []
    owners: dict[Owner, list[range]] = {}
    # Consecutive entries mostly have the same owner, and form one range.
    prefix, owner, since = "", ("", ""), 1
    for number, text in enumerate(texts, 1):
        place = text.rpartition(_PLACE)[2].removesuffix(_END)
        action = text[len(_BEGIN) : text.find('"', len(_BEGIN))]
        # Slicing is much faster than parsing, but needs the exact format, without escapes.
        sliceable = text.startswith(_BEGIN) and text.endswith(_END) and action in ACTIONS
        if not sliceable or '"' in place or "\\" in place:
            entry = parse(number, text)
            place, action = entry.place, entry.action
        actions.append(intern(action))
        if not (prefix and place.startswith(prefix)):
            _extend(owners, owner, since, number)
            first, _, rest = place.partition("/")
            owner, since = (intern(first), rest.partition("/")[0]), number
            prefix = f"{owner[0]}/{owner[1]}/" if owner[1] else ""
    _extend(owners, owner, since, len(texts) + 1)
    return EntryIndex(actions, owners)


def _extend(owners: dict[Owner, list[range]], owner: Owner, since: int, end: int) -> None:
    if since < end:
        # Reinserted, so that it becomes the last key.
        spans = owners.pop(owner, [])
        spans.append(range(since, end))
        owners[owner] = spans
