"""The audit log: what a party sent, received, rejected and answered, each entry chained."""

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

#: What the first entry is chained to.
GENESIS = "0" * 64

#: How an entry begins as this software writes it, with sorted keys.
_BEGIN = '{"action":"'

#: So many entries are asked for by their numbers; of more the whole log is read.
_FEW = 500

#: Number, text and hash of an entry.
LogRow = tuple[int, str, str]


class Entry(Record):
    """One thing that happened.

    Attributes:
        at: When, UTC, to the second.
        action: What was done.
        place: Where the artifact lies in the store, or the stage that did it.
        party: Who signed it, or was to receive it.
        artifact: Digest of the artifact; empty if a rejected one had none that could be believed.
        detail: A reason or a count, in public words; never a data value.
    """

    at: str
    action: Action
    place: str
    party: str
    artifact: str = ""
    detail: str = ""


_FIELDS = Entry.model_fields.keys()

#: All of them.
ACTIONS = frozenset(get_args(Action))


class Audit(Records):
    """A party's audit log, to which entries are only added."""

    def add(
        self, action: Action, place: str, party: str, artifact: str = "", detail: str = ""
    ) -> str:
        """Add an entry.

        Returns:
            Its hash, which binds all entries before it.
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
        """Number, entry and hash of all entries, oldest first; the chain is not verified.

        Raises:
            ArtifactError: An entry is none that this software wrote.
        """
        for number, text, hashed in self.rows():
            yield number, parse(number, text), hashed

    def rows(self) -> Sequence[LogRow]:
        """Number, text and hash of all entries, oldest first, as they lie in the database."""
        query = sa.select(_AUDIT.c.number, _AUDIT.c.entry, _AUDIT.c.hash).order_by(_AUDIT.c.number)
        with self._database.reading() as connection:
            return plain_rows(connection, query)

    def numbered(self, numbers: Collection[int]) -> list[tuple[int, Entry]]:
        """Some entries, oldest first; the chain is not verified.

        Args:
            numbers: Which.
        """
        if len(numbers) > _FEW:
            wanted = frozenset(numbers)
            return [(n, parse(n, text)) for n, text, _ in self.rows() if n in wanted]
        return self._where(_AUDIT.c.number.in_(numbers))

    def of(self, *actions: Action) -> list[Entry]:
        """Entries of some actions, oldest first; the chain is not verified.

        Args:
            actions: Which; there are few entries of them.
        """

        def read() -> list[Entry]:
            # By how an entry begins, since its keys are sorted; all that begins otherwise is
            # parsed.
            which = [_begins(_BEGIN + action + '"') for action in actions]
            rows = self._where(sa.or_(~_begins(_BEGIN), *which))
            return [entry for _, entry in rows if entry.action in actions]

        # All entries are looked at, and every stage asks whether the party has stopped.
        return list(self._database.unless_changed(f"audit of {' '.join(actions)}", read))

    def below(self, place: str) -> list[tuple[int, Entry]]:
        """Numbers and entries of all below a place, oldest first; the chain is not verified.

        Args:
            place: Such as ``<federation>/<run>/``.
        """
        rows = self._where(_AUDIT.c.entry.contains(f'"place":"{place}', autoescape=True))
        return [(number, entry) for number, entry in rows if entry.place.startswith(place)]

    def _where(self, condition: sa.ColumnElement[bool]) -> list[tuple[int, Entry]]:
        query = sa.select(_AUDIT.c.number, _AUDIT.c.entry).where(condition)
        rows = self._database.rows(query.order_by(_AUDIT.c.number))
        return [(number, parse(number, text)) for number, text in rows]

    def head(self) -> tuple[int, str]:
        """How many entries there are, and the hash of the last one; the chain is not verified."""
        with self._database.reading() as connection:
            return last_of(connection)

    def verify(self, head: str | None = None) -> tuple[int, str]:
        """Recompute the chain.

        Args:
            head: A hash that was noted earlier and must be in the chain: without one, entries cut
                off the end cannot be noticed.

        Returns:
            How many entries there are, and the hash of the last one.

        Raises:
            ArtifactError: An entry was changed, removed, or put in between; or the noted hash is
                not in the chain.
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
    """How many entries a log has and the hash of the last one, once its chain is recomputed.

    Args:
        rows: All of it, as `Audit.rows` gives them.

    Raises:
        ArtifactError: An entry was changed, removed, or put in between.
    """
    before, last = GENESIS, 0
    for number, text, hashed in rows:
        last += 1
        if number != last or _chain(before, number, text) != hashed:
            raise _broken(last)
        before = hashed
    return last, before


def last_of(connection: sa.Connection) -> tuple[int, str]:
    """Number and hash of the last entry; the chain is not verified.

    Args:
        connection: To the database.
    """
    query = sa.select(_AUDIT.c.number, _AUDIT.c.hash).order_by(_AUDIT.c.number.desc()).limit(1)
    last = connection.execute(query).first()
    return (last.number, last.hash) if last else (0, GENESIS)


def parse(number: int, text: str) -> Entry:
    """An entry from its text.

    Args:
        number: Its number.
        text: As it lies in the database.

    Raises:
        ArtifactError: It is none that this software wrote.
    """
    with contextlib.suppress(ValueError, TypeError, AttributeError, RecursionError):
        fields = json.loads(text)
        plain = all(type(value) is str for value in fields.values())
        if plain and fields.keys() == _FIELDS and fields["action"] in ACTIONS:
            # What validation would find, in a part of its time: logs are long.
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
