"""A party's audit log, read and verified whole: when that was, and where its entries belong."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from sys import intern

from opboost_ops.config.site import Site
from opboost_ops.errors import ArtifactError
from opboost_ops.exchange.audit import ACTIONS, Action, Entry, LogRow, parse, verified
from opboost_ops.exchange.party_state import open_state
from opboost_ops.privacy.ledger.tables import now

#: How an entry begins as this software writes it, with sorted keys; its place comes last.
_BEGIN, _PLACE, _END = '{"action":"', '"place":"', '"}'

#: The daily traffic; all else was decided by a person, or refused, and is listed by statements.
_DAILY: tuple[Action, ...] = ("sent", "received", "answered")
_BEGINS = tuple(f'{_BEGIN}{action}"' for action in _DAILY)

#: The first two parts of a place: a federation, and a run or what else it is.
Owner = tuple[str, str]


@dataclass(frozen=True)
class Where:
    """The action of each entry, and the federation and run that it belongs to.

    Attributes:
        actions: What was done, by number less one.
        owners: Numbers of the entries of each federation and run, oldest first; whose last entry
            is the newest comes last. What is of no federation has an empty second part.
    """

    actions: Sequence[str]
    owners: Mapping[Owner, Sequence[range]]


class LogRead:
    """An audit log as it was read. Nothing of it may be changed.

    Args:
        at: When it was verified, from the first entry to the last (UTC).
        rows: Its entries; none from the break on, where it is broken.
        head: The hash of the last one; empty where it is broken.
        failure: Where its chain is broken, if it is.
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
    def where(self) -> Where:
        """Where its entries belong."""
        return _sorted_in(self._texts)


def log_of(site: Site) -> LogRead:
    """A party's audit log, verified now from its first entry to its last.

    Args:
        site: The party's.
    """
    at = now()
    with open_state(site) as state:
        rows = state.audit.rows()
    try:
        _, head = verified(rows)
    except ArtifactError as error:
        # What stands before the break is shown; a damaged entry cannot be.
        return LogRead(at, _whole(rows), "", error)
    return LogRead(at, rows, head)


def _whole(rows: Sequence[LogRow]) -> Sequence[LogRow]:
    """The entries before the first one that is none."""
    for at, (number, text, _) in enumerate(rows):
        try:
            parse(number, text)
        except ArtifactError:
            return rows[:at]
    return rows


def _sorted_in(texts: Sequence[str]) -> Where:
    actions: list[str] = []
    owners: dict[Owner, list[range]] = {}
    # Neighbours mostly belong together: so many are told of at once.
    here, owner, since = "", ("", ""), 1
    for number, text in enumerate(texts, 1):
        place = text.rpartition(_PLACE)[2].removesuffix(_END)
        action = text[len(_BEGIN) : text.find('"', len(_BEGIN))]
        plain = text.startswith(_BEGIN) and text.endswith(_END) and action in ACTIONS
        if not plain or '"' in place or "\\" in place:
            entry = parse(number, text)
            place, action = entry.place, entry.action
        actions.append(intern(action))
        if not (here and place.startswith(here)):
            _extend(owners, owner, since, number)
            first, _, rest = place.partition("/")
            owner, since = (intern(first), rest.partition("/")[0]), number
            here = f"{owner[0]}/{owner[1]}/" if owner[1] else ""
    _extend(owners, owner, since, len(texts) + 1)
    return Where(actions, owners)


def _extend(owners: dict[Owner, list[range]], owner: Owner, since: int, end: int) -> None:
    if since < end:
        # Taken out and put in again, so that it comes last.
        spans = owners.pop(owner, [])
        spans.append(range(since, end))
        owners[owner] = spans
