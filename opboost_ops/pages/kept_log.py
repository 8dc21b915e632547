"""A party's audit log, read and verified whole: when that was, and where its entries belong."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from sys import intern

from opboost_ops.config.site import Site
from opboost_ops.errors import ArtifactError
from opboost_ops.exchange.audit import Action, Entry, LogRow, parse, verified
from opboost_ops.exchange.books import open_books
from opboost_ops.pages.kept import Kept

#: An entry as this software writes it, with sorted keys: its action and its place.
_WRITTEN = re.compile(r'\{"action":"([a-z_]+)",.*,"place":"([^"\\]*)"\}')

#: The daily traffic; all else was decided by a person, or refused, and is listed by statements.
_DAILY: frozenset[Action] = frozenset(("sent", "received", "answered"))

#: The first two parts of a place: a federation, and a run or what else it is.
Owner = tuple[str, str]


@dataclass(frozen=True)
class LogRead:
    """What an audit log said when it was read.

    Attributes:
        at: When it was verified, from the first entry to the last (UTC).
        count: How many entries it has.
        head: The hash of the last one.
        failure: Where its chain is broken, if it is.
        actions: What was done, by number.
        owners: Numbers of the entries of each federation and run, oldest first; whose last entry
            is the newest comes last. What is of no federation has an empty second part.
        decided: The entries that a statement lists, oldest first.
    """

    at: str
    count: int = 0
    head: str = ""
    failure: ArtifactError | None = None
    actions: Mapping[int, str] = field(default_factory=dict)
    owners: Mapping[Owner, list[int]] = field(default_factory=dict)
    decided: Sequence[Entry] = ()


def log_of(site: Site) -> LogRead:
    """A party's audit log; verified again whenever its database has changed.

    Args:
        site: The party's.
    """
    return _LOGS.of(site)


def _read(site: Site) -> LogRead:
    at = datetime.now(UTC).isoformat(timespec="seconds")
    with open_books(site) as books:
        rows = books.audit.rows()
    try:
        count, head = verified(rows)
    except ArtifactError as error:
        # What stands before the break is shown; a damaged entry cannot be.
        return LogRead(at, 0, "", error, *_sorted_in(_whole(rows)))
    actions, owners = _sorted_in(map(_ends, rows))
    decided = [parse(n, text) for n, text, _ in rows if actions[n] not in _DAILY]
    return LogRead(at, count, head, None, actions, owners, decided)


def _sorted_in(
    entries: Iterable[tuple[int, str, str]],
) -> tuple[dict[int, str], dict[Owner, list[int]]]:
    actions: dict[int, str] = {}
    owners: dict[Owner, list[int]] = {}
    for number, action, place in entries:
        first, _, rest = place.partition("/")
        owner = (intern(first), rest.partition("/")[0])
        # Taken out and put in again, so that it comes last.
        numbers = owners.pop(owner, [])
        numbers.append(number)
        owners[owner] = numbers
        actions[number] = intern(action)
    return actions, owners


def _ends(row: LogRow) -> tuple[int, str, str]:
    """Number, action and place: no more is looked at of entries that are perhaps never shown."""
    number, text, _ = row
    plain = _WRITTEN.fullmatch(text)
    if plain is not None:
        return number, plain[1], plain[2]
    entry = parse(number, text)
    return number, entry.action, entry.place


def _whole(rows: Iterable[LogRow]) -> Iterator[tuple[int, str, str]]:
    for number, text, _ in rows:
        try:
            entry = parse(number, text)
        except ArtifactError:
            return
        yield number, entry.action, entry.place


_LOGS = Kept(_read)
