"""Counts of the people whom label holders have queried, and sessions of secure sums.

Within a month and a federation, a person is always the same point, so only new people count. Until
the month is over, a prefix of each point is stored to recognise it. In another federation the same
person is a different point, and counts again.
"""

import base64
import hashlib
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass

import numpy as np
import sqlalchemy as sa

from opboost_ops.privacy.ledger.database import Records
from opboost_ops.privacy.ledger.tables import now, table

_QUERIES = table(
    "asked",
    {"federation": 160, "receiver": 160, "epoch": 16, "query": 64},
    run=40,
    people=sa.BigInteger,
)
_POINTS = table(
    "asked_points",
    {"federation": 160, "receiver": 160, "epoch": 16, "query": 64, "part": int},
    parts=int,
    # Base64: a backup writes rows as text.
    points=str,
)

#: Stored bytes of a point. Finding two points with equal prefixes takes about 2^64 multiplications,
#: and saves one query.
STORED_BYTES = 16

_SESSIONS = table(
    "sessions",
    {"federation": 160, "run": 40},
    optional="ended_at",
    name=64,
    begun_at=40,
    ended_at=40,
)


@dataclass(frozen=True)
class Query:
    """A query of one run in an epoch.

    Attributes:
        federation: Name of the federation.
        receiver: The querying party.
        epoch: Epoch of the run.
        digest: Digest of the query.
        run: ID of the run.
    """

    federation: str
    receiver: str
    epoch: str
    digest: str
    run: str


@dataclass(frozen=True)
class QueryCount:
    """Number of people queried by one label holder, over all of its federations.

    Attributes:
        epoch: Approximate number of distinct people in the epoch, including this query.
        ever: Approximate number over all epochs; each epoch counts its people once.
    """

    epoch: int
    ever: int


@dataclass(frozen=True)
class AnsweredQueries:
    """A label holder's answered queries so far.

    Attributes:
        federations: Names of the federations in which it queried.
        receiver: The querying party.
        epoch: The last month in which it queried.
        counted: Number of people so far.
    """

    federations: frozenset[str]
    receiver: str
    epoch: str
    counted: QueryCount


class QueryCounts(Records):
    """A party's counts of the people whom label holders queried."""

    def at_least(self, query: Query, people: int) -> QueryCount:
        """Return the minimum count after a query of known size but unknown points.

        Args:
            query: The query.
            people: Number of people in it, according to its manifest.
        """
        with self._database.reading() as connection:
            counted = _counted(connection, query.receiver, query.epoch)
            here = _counted(connection, query.receiver, query.epoch, query.federation)
        more = max(people - here.epoch, 0)
        return QueryCount(counted.epoch + more, counted.ever + more)

    def count(
        self,
        query: Query,
        parts: Iterable[np.ndarray],
        of: int,
        epochs: Collection[str],
        require: Callable[[QueryCount], None],
    ) -> QueryCount:
        """Count a query in its epoch before it is answered, in one transaction.

        A retry does not count it again.

        Args:
            query: The query.
            parts: Its points, sorted, uint8, shape (k, at least 16), part by part; parts are split
                by their first bits. One point belongs to nobody.
            of: Number of parts, a power of two.
            epochs: Epochs whose points are still needed; points of other epochs are deleted.
            require: Raises to reject the count; then nothing is counted.
        """
        place = {n: getattr(query, n) for n in ("federation", "receiver", "epoch")}
        in_epoch = [_QUERIES.c[name] == value for name, value in place.items()]
        with self._database.writing() as connection:
            same = sa.select(_QUERIES.c.query).where(*in_epoch, _QUERIES.c.query == query.digest)
            if connection.execute(same).first() is None:
                any_query = sa.select(_QUERIES.c.query).where(*in_epoch)
                first = connection.execute(any_query).first() is None
                new = 0
                for number, points in enumerate(parts):
                    fresh = _fresh(connection, place, points, number, of)
                    new += len(fresh)
                    line = {**place, "query": query.digest, "part": number, "parts": of}
                    connection.execute(
                        sa.insert(_POINTS).values(
                            {**line, "points": base64.b64encode(fresh.tobytes()).decode()}
                        )
                    )
                # The point that every party adds is among the first query's points.
                line = {**place, "query": query.digest, "run": query.run}
                people = new - 1 if first else new
                connection.execute(sa.insert(_QUERIES).values({**line, "people": people}))
            counted = _counted(connection, query.receiver, query.epoch)
            require(counted)
            connection.execute(sa.delete(_POINTS).where(_POINTS.c.epoch.not_in(epochs)))
        return counted

    def count_lost(self, query: Query, people: int) -> None:
        """Count a query that a rolled-back state does not know; its people count again later.

        Args:
            query: The query, in the month in which its people are to count.
            people: Number of people in it, according to the manifest of its answer.
        """
        line = {name: getattr(query, name) for name in ("federation", "receiver", "epoch", "run")}
        line["query"] = query.digest
        place = [_QUERIES.c[name] == value for name, value in line.items() if name != "run"]
        with self._database.writing() as connection:
            if connection.execute(sa.select(_QUERIES.c.query).where(*place)).first() is None:
                connection.execute(sa.insert(_QUERIES).values(**line, people=people))

    def answered(self) -> list[AnsweredQueries]:
        """Return each label holder's number of queried people, in its last month and in total."""
        place = (_QUERIES.c.receiver, _QUERIES.c.federation, _QUERIES.c.epoch)
        with self._database.reading() as connection:
            rows = connection.execute(sa.select(*place).distinct().order_by(*place)).all()
            answers = []
            for receiver in sorted({row.receiver for row in rows}):
                mine = [row for row in rows if row.receiver == receiver]
                last = max(row.epoch for row in mine)
                names = frozenset(row.federation for row in mine)
                counted = _counted(connection, receiver, last)
                answers.append(AnsweredQueries(names, receiver, last, counted))
        return answers


def _counted(
    connection: sa.Connection, receiver: str, epoch: str, federation: str = ""
) -> QueryCount:
    """Count the people whom a label holder queried, in one federation or over all of them."""
    conditions = [_QUERIES.c.receiver == receiver]
    conditions += [_QUERIES.c.federation == federation] if federation else []
    total = sa.select(sa.func.sum(_QUERIES.c.people)).where(*conditions)
    in_epoch = connection.execute(total.where(_QUERIES.c.epoch == epoch)).scalar()
    return QueryCount(int(in_epoch or 0), int(connection.execute(total).scalar() or 0))


def _fresh(
    connection: sa.Connection, place: dict[str, str], points: np.ndarray, part: int, parts: int
) -> np.ndarray:
    """Return the points of a part that no earlier query of the epoch has, 16 bytes each."""
    fresh = np.ascontiguousarray(points[:, :STORED_BYTES]).view(f"V{STORED_BYTES}").ravel()
    earlier = connection.execute(
        sa.select(_POINTS.c.part, _POINTS.c.parts, _POINTS.c.points).where(
            *(_POINTS.c[name] == value for name, value in place.items())
        ),
        execution_options={"yield_per": 1},
    )
    for other, of, stored in earlier:
        # Parts are split by first bits: one of two contains the other, or they are disjoint.
        if other * parts // of == part if of >= parts else part * of // parts == other:
            old = np.frombuffer(base64.b64decode(stored), dtype=f"V{STORED_BYTES}")
            fresh = fresh[~np.isin(fresh, old)]
    return fresh


@dataclass(frozen=True)
class Session:
    """A session of secure sums.

    Attributes:
        name: SHA-256 of its key; the key itself is not stored here.
        begun_at: When it began, UTC.
        ended_at: When its last decision was received, UTC; None before.
    """

    name: str
    begun_at: str
    ended_at: str | None


class Sessions(Records):
    """A party's sessions of secure sums, across all its federations; none is ever deleted."""

    def find(self, federation: str, run: str) -> Session | None:
        """Return the session of a run, or None if it never began.

        Args:
            federation: Name of the federation.
            run: ID of the run.
        """
        row = self._database.first(
            sa.select(_SESSIONS.c.name, _SESSIONS.c.begun_at, _SESSIONS.c.ended_at).where(
                _SESSIONS.c.federation == federation, _SESSIONS.c.run == run
            )
        )
        return None if row is None else Session(*row)

    def begin(self, federation: str, run: str, key: bytes) -> None:
        """Record the begin of a session, before any of it is published.

        Args:
            federation: Name of the federation.
            run: ID of the run, which has no session yet.
            key: Key of the session.
        """
        line = {"federation": federation, "run": run, "name": name_of(key), "begun_at": now()}
        self._database.execute(sa.insert(_SESSIONS).values(line))

    def end(self, federation: str, run: str) -> None:
        """Record the end of a session: nothing more is sent in it.

        Args:
            federation: Name of the federation.
            run: ID of the run.
        """
        self._database.execute(
            sa.update(_SESSIONS)
            .where(_SESSIONS.c.federation == federation, _SESSIONS.c.run == run)
            .where(_SESSIONS.c.ended_at.is_(None))
            .values(ended_at=now())
        )


def name_of(key: bytes) -> str:
    """Return a session's name: the SHA-256 of its random key, which it does not disclose."""
    return hashlib.sha256(key).hexdigest()
