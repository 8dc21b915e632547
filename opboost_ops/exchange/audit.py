"""The audit log: a hash chain of what a party sent, received, rejected and answered."""

import contextlib
import hashlib
import json
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Literal, get_args

import sqlalchemy as sa
from pydantic import ValidationError

from opboost_ops.config.schema import Record
from opboost_ops.errors import ArtifactError
from opboost_ops.privacy.ledger.database import Records, plain_rows
from opboost_ops.privacy.ledger.tables import now, table

Action = Literal[
    "sent",
    "received",
    "rejected",
    "refused",
    "asked",
    "approved",
    "declined",
    "answered",
    "forgotten",
    "rotated",
    "removed",
    "agreed",
    "withdrawn",
    "promoted",
    "rolled_back",
    "stopped",
    "resumed",
    "act_refused",
    "noted",
]

_AUDIT = table("audit", {"number": int}, entry=str, hash=64)

#: Predecessor of the first entry.
GENESIS = "0" * 64

#: Start of an entry as this software writes it, with sorted keys.
_BEGIN = '{"action":"'

#: Up to this many entries are queried by number; for more, the whole log is read.
_FEW = 500

#: Number, text and hash of an entry.
LogRow = tuple[int, str, str]


class Entry(Record):
    """An event.

    Attributes:
        at: Time, UTC, to the second.
        action: The action.
        place: Place of the artifact in the store, or the stage.
        party: The signer or the receiver.
        artifact: Digest of the artifact; empty if a rejected artifact had no credible digest.
        detail: A reason or a count, in public words; never a data value.
    """

    at: str
    action: Action
    place: str
    party: str
    artifact: str = ""
    detail: str = ""


_FIELDS = Entry.model_fields.keys()

#: All actions.
ACTIONS = frozenset(get_args(Action))


class Audit(Records):
    """A party's append-only audit log."""

    def add(
        self, action: Action, place: str, party: str, artifact: str = "", detail: str = ""
    ) -> str:
        """Add an entry.

        Returns:
            Its hash, which covers all earlier entries.
        """
        entry = Entry(
            at=now(), action=action, place=place, party=party, artifact=artifact, detail=detail
        )
        text = json.dumps(entry.model_dump(mode="json"), sort_keys=True, separators=(",", ":"))
        with self._database.writing() as connection:
            last, before = last_of(connection)
            chained = _chain(before, last + 1, text)
            connection.execute(
                sa.insert(_AUDIT).values({"number": last + 1, "entry": text, "hash": chained})
            )
        return chained

    def entries(self) -> Iterator[tuple[int, Entry, str]]:
        """Yield number, entry and hash of all entries, oldest first, without verifying the chain.

        Raises:
            ArtifactError: An entry was not written by this software.
        """
        for number, text, hashed in self.rows():
            yield number, parse(number, text), hashed

    def rows(self) -> Sequence[LogRow]:
        """Return the stored number, text and hash of all entries, oldest first."""
        query = sa.select(_AUDIT.c.number, _AUDIT.c.entry, _AUDIT.c.hash).order_by(_AUDIT.c.number)
        with self._database.reading() as connection:
            return plain_rows(connection, query)

    def numbered(self, numbers: Collection[int]) -> list[tuple[int, Entry]]:
        """Return some entries, oldest first, without verifying the chain.

        Args:
            numbers: Numbers of the entries.
        """
        if len(numbers) > _FEW:
            wanted = frozenset(numbers)
            return [(n, parse(n, text)) for n, text, _ in self.rows() if n in wanted]
        return self._where(_AUDIT.c.number.in_(numbers))

    def of(self, *actions: Action) -> list[Entry]:
        """Return the entries of some actions, oldest first, without verifying the chain.

        Args:
            actions: Actions that have few entries.
        """

        def read() -> list[Entry]:
            # Filters by the start of the text, since keys are sorted; entries that start
            # differently are parsed.
            which = [_begins(_BEGIN + action + '"') for action in actions]
            rows = self._where(sa.or_(~_begins(_BEGIN), *which))
            return [entry for _, entry in rows if entry.action in actions]

        # This scans all entries, and every stage checks whether the party has stopped.
        return list(self._database.unless_changed(f"audit of {' '.join(actions)}", read))

    def below(self, place: str) -> list[tuple[int, Entry]]:
        """Return numbers and entries below a place, oldest first, without verifying the chain.

        Args:
            place: A prefix such as ``<federation>/<run>/``.
        """
        rows = self._where(_AUDIT.c.entry.contains(f'"place":"{place}', autoescape=True))
        return [(number, entry) for number, entry in rows if entry.place.startswith(place)]

    def _where(self, condition: sa.ColumnElement[bool]) -> list[tuple[int, Entry]]:
        query = sa.select(_AUDIT.c.number, _AUDIT.c.entry).where(condition)
        rows = self._database.rows(query.order_by(_AUDIT.c.number))
        return [(number, parse(number, text)) for number, text in rows]

    def head(self) -> tuple[int, str]:
        """Return the number of entries and the hash of the last one, without verifying."""
        with self._database.reading() as connection:
            return last_of(connection)

    def verify(self, head: str | None = None) -> tuple[int, str]:
        """Verify the chain.

        Args:
            head: A hash noted earlier, which must be in the chain: without one, truncation cannot
                be detected.

        Returns:
            The number of entries and the hash of the last one.

        Raises:
            ArtifactError: An entry was changed, removed or inserted, or the noted hash is missing.
        """
        rows = self.rows()
        chain = verified(rows)
        if head is not None and head != GENESIS and all(hashed != head for _, _, hashed in rows):
            raise ArtifactError(
                "The noted hash is not in the audit log: entries were cut off or replaced.",
                "Compare it with a copy.",
            )
        return chain


def verified(rows: Iterable[LogRow]) -> tuple[int, str]:
    """Verify a log, and return its number of entries and the hash of the last one.

    Args:
        rows: The whole log, from `Audit.rows`.

    Raises:
        ArtifactError: An entry was changed, removed or inserted.
    """
    before, last = GENESIS, 0
    for number, text, hashed in rows:
        last += 1
        if number != last or _chain(before, number, text) != hashed:
            raise _broken(last)
        before = hashed
    return last, before


def last_of(connection: sa.Connection) -> tuple[int, str]:
    """Return number and hash of the last entry, without verifying the chain.

    Args:
        connection: Connection to the database.
    """
    query = sa.select(_AUDIT.c.number, _AUDIT.c.hash).order_by(_AUDIT.c.number.desc()).limit(1)
    last = connection.execute(query).first()
    return (last.number, last.hash) if last else (0, GENESIS)


def parse(number: int, text: str) -> Entry:
    """Parse an entry.

    Args:
        number: Number of the entry.
        text: Its text in the database.

    Raises:
        ArtifactError: It was not written by this software.
    """
    with contextlib.suppress(ValueError, TypeError, AttributeError, RecursionError):
        fields = json.loads(text)
        plain = all(type(value) is str for value in fields.values())
        if plain and fields.keys() == _FIELDS and fields["action"] in ACTIONS:
            # Equivalent to validation but much faster, because logs are long.
            return Entry.model_construct(**fields)
    with contextlib.suppress(ValidationError):
        return Entry.model_validate_json(text)
    raise _broken(number)


def _begins(text: str) -> sa.ColumnElement[bool]:
    return sa.func.substr(_AUDIT.c.entry, 1, len(text)) == text


def _broken(number: int) -> ArtifactError:
    return ArtifactError(
        f"The audit log is broken at entry {number}.",
        "It was changed outside this software; compare it with a copy.",
    )


def _chain(before: str, number: int, text: str) -> str:
    return hashlib.sha256(f"{before}\n{number}\n{text}".encode()).hexdigest()
