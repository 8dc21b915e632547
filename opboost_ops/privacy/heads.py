"""Heads: a number and a digest of a party's books, which go with what it publishes.

Towards each receiver in a federation a party's runs are numbered, and each number has a head: an
HMAC under a key of the party over the head before it and the lines of artifacts that were charged
towards this receiver in this federation since then. A receiver keeps what it has seen and refuses
books that went back; it learns nothing of other federations, of draws, refusals or the forgotten.
"""

import hashlib
import hmac
import json
from collections.abc import Collection, Mapping
from typing import Literal

import sqlalchemy as sa
from pydantic import Field

from opboost_ops.config.schema import Record
from opboost_ops.privacy.database import METADATA, Database

_GIVEN = sa.Table(
    "heads_given",
    METADATA,
    sa.Column("federation", sa.String(160), primary_key=True),
    sa.Column("receiver", sa.String(160), primary_key=True),
    sa.Column("number", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("run", sa.String(40), nullable=False),
    sa.Column("head", sa.String(64), nullable=False),
    sa.Column("seen", sa.Text, nullable=False),
    sa.Column("line", sa.Integer, nullable=False),
    sa.UniqueConstraint("federation", "receiver", "run"),
)
_SEEN = sa.Table(
    "heads_seen",
    METADATA,
    sa.Column("federation", sa.String(160), primary_key=True),
    sa.Column("party", sa.String(160), primary_key=True),
    sa.Column("receiver", sa.String(160), primary_key=True),
    sa.Column("run", sa.String(40), primary_key=True),
    sa.Column("number", sa.Integer, nullable=False),
    sa.Column("head", sa.String(64), nullable=False),
    sa.UniqueConstraint("federation", "party", "receiver", "number"),
)

#: What the first head follows from: the books of a release that had none begin here, too.
GENESIS = "0" * 64


class Head(Record):
    """Where a party's books stood when it took part in a run.

    Attributes:
        number: Of the run, among those of this federation towards this receiver.
        head: HMAC over the lines before it, 64 hex digits.
    """

    number: int = Field(ge=1)
    head: str = Field(pattern=r"^[0-9a-f]{64}$")


class Given(Record):
    """What a run's manifests carry of a party's books.

    Attributes:
        head: Where they stood.
        seen: By party, the last head that was seen of it then.
    """

    head: Head
    seen: Mapping[str, Head] = Field(default_factory=dict)


class Heads:
    """The heads that a party has given, and those that it has seen.

    Args:
        database: The party's.
    """

    def __init__(self, database: Database) -> None:
        self._database = database

    def take(
        self,
        key: bytes,
        federation: str,
        receiver: str,
        run: str,
        kinds: Collection[str],
        others: Collection[str],
        label_holder: str,
    ) -> Given:
        """The head of a run: the next one, or at a retry the same.

        Args:
            key: The party's, of this federation and receiver.
            federation: The federation's name.
            receiver: Who will see it.
            run: The run's id.
            kinds: Kinds of artifact: lines of others are no part of it.
            others: Parties whose last head is told with it.
            label_holder: The federation's.
        """
        with self._database.writing() as connection:
            known = self.given(federation, receiver, run)
            if known is not None:
                return known
            before = connection.execute(
                sa.select(_GIVEN.c.number, _GIVEN.c.head, _GIVEN.c.line)
                .where(_GIVEN.c.federation == federation, _GIVEN.c.receiver == receiver)
                .order_by(_GIVEN.c.number.desc())
                .limit(1)
            ).first()
            number, head, line = (before.number + 1, *before[1:]) if before else (1, GENESIS, 0)
            mac = hmac.new(key, f"{head}\n{number}\n{run}".encode(), hashlib.sha256)
            # Manifests know heads, and the DAG processor reads ids of runs: nothing heavy there.
            from opboost_ops.privacy.ledger import lines_after

            lines = lines_after(connection, line)
            for _, release in lines:
                to = (release.federation, release.receiver)
                if to == (federation, receiver) and release.kind in kinds:
                    mac.update(f"\n{release.run}/{release.kind}/{release.artifact}".encode())
            last = {party: self.last_seen(federation, party, label_holder) for party in others}
            seen = {party: found for party, found in last.items() if found is not None}
            given = Given(head=Head(number=number, head=mac.hexdigest()), seen=seen)
            self.restore(federation, receiver, run, given, lines[-1][0] if lines else line)
        return given

    def restore(
        self, federation: str, receiver: str, run: str, given: Given, line: int = 0
    ) -> None:
        """Write down a head that was given.

        Args:
            federation: The federation's name.
            receiver: Who sees it.
            run: The run's id.
            given: What its manifests carry.
            line: The last line of the ledger that it was made of; 0 where that is not known.
        """
        seen = {party: head.model_dump() for party, head in given.seen.items()}
        row = {
            "federation": federation,
            "receiver": receiver,
            "number": given.head.number,
            "run": run,
            "head": given.head.head,
            "seen": json.dumps(seen, sort_keys=True),
            "line": line,
        }
        with self._database.writing() as connection:
            connection.execute(sa.insert(_GIVEN).values(row))

    def replace(self, federation: str, receiver: str, run: str, given: Given, line: int) -> None:
        """Write down a head that was given, whatever these books say in its stead."""
        either = sa.or_(_GIVEN.c.run == run, _GIVEN.c.number == given.head.number)
        of = (_GIVEN.c.federation == federation, _GIVEN.c.receiver == receiver, either)
        with self._database.writing() as connection:
            connection.execute(sa.delete(_GIVEN).where(*of))
            self.restore(federation, receiver, run, given, line)

    def given(self, federation: str, receiver: str, run: str) -> Given | None:
        """What a run's manifests carry; None if it has given nothing yet."""
        return self._one_given(federation, receiver, _GIVEN.c.run == run)

    def numbered(self, federation: str, receiver: str, number: int) -> Given | None:
        """What was given under a number."""
        return self._one_given(federation, receiver, _GIVEN.c.number == number)

    def last_number(self, federation: str, receiver: str) -> int:
        """The highest number that was given; 0 if there is none."""
        given = self.given(federation, receiver, self.last_run(federation, receiver))
        return given.head.number if given else 0

    def last_run(self, federation: str, receiver: str) -> str:
        """The run with the highest number; empty if there is none."""
        with self._database.reading() as connection:
            found = connection.execute(
                sa.select(_GIVEN.c.run)
                .where(_GIVEN.c.federation == federation, _GIVEN.c.receiver == receiver)
                .order_by(_GIVEN.c.number.desc())
                .limit(1)
            ).scalar()
        return found or ""

    def _one_given(
        self, federation: str, receiver: str, which: sa.ColumnElement[bool]
    ) -> Given | None:
        with self._database.reading() as connection:
            row = connection.execute(
                sa.select(_GIVEN.c.number, _GIVEN.c.head, _GIVEN.c.seen).where(
                    _GIVEN.c.federation == federation, _GIVEN.c.receiver == receiver, which
                )
            ).first()
        if row is None:
            return None
        return Given(head=Head(number=row.number, head=row.head), seen=json.loads(row.seen))

    def last_seen(self, federation: str, party: str, receiver: str) -> Head | None:
        """The head of the highest number that was seen of a party.

        Args:
            federation: The federation's name.
            party: Whose.
            receiver: Towards whom it was given.
        """
        with self._database.reading() as connection:
            row = connection.execute(
                sa.select(_SEEN.c.number, _SEEN.c.head)
                .where(*_of(federation, party, receiver))
                .order_by(_SEEN.c.number.desc())
                .limit(1)
            ).first()
        return Head(number=row.number, head=row.head) if row is not None else None

    def see(
        self, federation: str, party: str, receiver: str, run: str, head: Head, after: int = 0
    ) -> Literal["", "older", "another"]:
        """Keep a head that another party has given in a run.

        Args:
            federation: The federation's name.
            party: Whose.
            receiver: Towards whom it was given.
            run: The run's id.
            head: The head.
            after: What had been seen of the party when the run was opened: its number is higher.

        Returns:
            Empty if that is well; ``older`` if its number is not higher, and ``another`` if the
            number is another run's, or the run has another head. Then nothing is kept.
        """
        of = _of(federation, party, receiver)
        with self._database.reading() as connection:
            found = _clash(connection, of, run, head)
        if found is not None:
            return found
        if head.number <= after:
            return "older"
        row = {"federation": federation, "party": party, "receiver": receiver, "run": run}
        with self._database.writing() as connection:
            found = _clash(connection, of, run, head)
            if found is None:
                connection.execute(sa.insert(_SEEN).values({**row, **head.model_dump()}))
        return found or ""


def _of(federation: str, party: str, receiver: str) -> tuple[sa.ColumnElement[bool], ...]:
    return (
        _SEEN.c.federation == federation,
        _SEEN.c.party == party,
        _SEEN.c.receiver == receiver,
    )


def _clash(
    connection: sa.Connection, of: tuple[sa.ColumnElement[bool], ...], run: str, head: Head
) -> Literal["", "another"] | None:
    """Whether a head was seen just so, or another in its stead; None if neither was."""
    either = sa.or_(_SEEN.c.run == run, _SEEN.c.number == head.number)
    known = sa.select(_SEEN.c.run, _SEEN.c.number, _SEEN.c.head).where(*of, either)
    rows = connection.execute(known).all()
    if not rows:
        return None
    return "" if [tuple(row) for row in rows] == [(run, head.number, head.head)] else "another"
