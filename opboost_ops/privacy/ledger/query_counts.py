"""Counts of people whom a label holder has queried, and sessions of sums: each takes place once.

In a month and a federation the same person is the same point, so only new people count. Of the
month's points so much is kept as tells them apart, until the month is over. In another federation
the same person is another point, and counts again.
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

#: Bytes of a point that are kept. To make two points that agree in them takes 2^100 trials.
KEPT = 16

_SESSIONS = table(
    "sessions",
    {"federation": 160, "run": 40},
    optional="ended_at",
    name=64,
    begun_at=40,
    ended_at=40,
)


@dataclass(frozen=True)
class Question:
    """A query of one run of an epoch.

    Attributes:
        federation: Name of the federation.
        receiver: Who asks.
        epoch: The run's.
        query: Digest of the query.
        run: The run's id.
    """

    federation: str
    receiver: str
    epoch: str
    query: str
    run: str


@dataclass(frozen=True)
class QueryCount:
    """People queried by one label holder, over all of its federations.

    Attributes:
        epoch: About how many different people in the epoch, this query's among them.
        ever: About how many in all epochs, where those of an epoch count once in it.
    """

    epoch: int
    ever: int


@dataclass(frozen=True)
class AnsweredQueries:
    """A label holder's answered queries so far.

    Attributes:
        federations: Names of the federations in which it asked.
        receiver: Who asked.
        epoch: The last month in which it asked.
        counted: How many people until now.
    """

    federations: frozenset[str]
    receiver: str
    epoch: str
    counted: QueryCount


class QueryCounts(Records):
    """A party's account of what label holders asked it."""

    def at_least(self, question: Question, people: int) -> QueryCount:
        """Fewest people that will have been queried with a query of which only the size is known.

        Args:
            question: Whose and which.
            people: How many people it queries, as its manifest says.
        """
        with self._database.reading() as connection:
            counted = _counted(connection, question.receiver, question.epoch)
            here = _counted(connection, question.receiver, question.epoch, question.federation)
        more = max(people - here.epoch, 0)
        return QueryCount(counted.epoch + more, counted.ever + more)

    def count(
        self,
        question: Question,
        parts: Iterable[np.ndarray],
        of: int,
        epochs: Collection[str],
        require: Callable[[QueryCount], None],
    ) -> QueryCount:
        """Count a query in its epoch, before it is answered; no other writer comes between.

        It is counted once: a retry finds it there.

        Args:
            question: Whose and which.
            parts: Its points, sorted, uint8, shape (k, at least 16), part by part; parts are cut
                by their first bits. One of the points is nobody's.
            of: How many parts, a power of two.
            epochs: Epochs whose points are still needed; those of others are taken out.
            require: Refuses by raising; then nothing was counted.
        """
        place = {n: getattr(question, n) for n in ("federation", "receiver", "epoch")}
        here = [_QUERIES.c[name] == value for name, value in place.items()]
        with self._database.writing() as connection:
            earlier = sa.select(_QUERIES.c.query).where(*here, _QUERIES.c.query == question.query)
            if connection.execute(earlier).first() is None:
                first = connection.execute(sa.select(_QUERIES.c.query).where(*here)).first() is None
                new = 0
                for number, points in enumerate(parts):
                    fresh = _fresh(connection, place, points, number, of)
                    new += len(fresh)
                    line = {**place, "query": question.query, "part": number, "parts": of}
                    connection.execute(
                        sa.insert(_POINTS).values(
                            {**line, "points": base64.b64encode(fresh.tobytes()).decode()}
                        )
                    )
                # The message that every party adds is among the first query's points.
                line = {**place, "query": question.query, "run": question.run}
                people = new - 1 if first else new
                connection.execute(sa.insert(_QUERIES).values({**line, "people": people}))
            counted = _counted(connection, question.receiver, question.epoch)
            require(counted)
            connection.execute(sa.delete(_POINTS).where(_POINTS.c.epoch.not_in(epochs)))
        return counted

    def answered(self) -> list[AnsweredQueries]:
        """How many people each label holder has queried, in its last month and in all."""
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
    """People whom a label holder has queried, in one federation or over all of them."""
    of = [_QUERIES.c.receiver == receiver]
    of += [_QUERIES.c.federation == federation] if federation else []
    total = sa.select(sa.func.sum(_QUERIES.c.people)).where(*of)
    in_epoch = connection.execute(total.where(_QUERIES.c.epoch == epoch)).scalar()
    return QueryCount(int(in_epoch or 0), int(connection.execute(total).scalar() or 0))


def _fresh(
    connection: sa.Connection, place: dict[str, str], points: np.ndarray, part: int, parts: int
) -> np.ndarray:
    """Which of a part's points no earlier query of the epoch has, shape (k,), 16 bytes each."""
    fresh = np.ascontiguousarray(points[:, :KEPT]).view(f"V{KEPT}").ravel()
    earlier = connection.execute(
        sa.select(_POINTS.c.part, _POINTS.c.parts, _POINTS.c.points).where(
            *(_POINTS.c[name] == value for name, value in place.items())
        ),
        execution_options={"yield_per": 1},
    )
    for other, of, stored in earlier:
        # Parts are cut by first bits: of two one holds the other, or they have nothing in common.
        if other * parts // of == part if of >= parts else part * of // parts == other:
            old = np.frombuffer(base64.b64decode(stored), dtype=f"V{KEPT}")
            fresh = fresh[~np.isin(fresh, old)]
    return fresh


@dataclass(frozen=True)
class Session:
    """A session as the ledger knows it.

    Attributes:
        name: Sha256 of its key; the key itself is not here.
        begun_at: When, UTC.
        ended_at: When its last decision was heard; None before.
    """

    name: str
    begun_at: str
    ended_at: str | None


class Sessions(Records):
    """A party's sessions of sums, across all its federations; none is ever taken out."""

    def find(self, federation: str, run: str) -> Session | None:
        """The session of a run, or None if it never began.

        Args:
            federation: The federation's name.
            run: The run's id.
        """
        row = self._database.first(
            sa.select(_SESSIONS.c.name, _SESSIONS.c.begun_at, _SESSIONS.c.ended_at).where(
                _SESSIONS.c.federation == federation, _SESSIONS.c.run == run
            )
        )
        return None if row is None else Session(*row)

    def begin(self, federation: str, run: str, key: bytes) -> None:
        """Note that a session begins, before anything of it leaves.

        Args:
            federation: The federation's name.
            run: The run's id; it has no session yet.
            key: The session's key.
        """
        line = {"federation": federation, "run": run, "name": name_of(key), "begun_at": now()}
        self._database.execute(sa.insert(_SESSIONS).values(line))

    def end(self, federation: str, run: str) -> None:
        """Note that a session has ended: nothing more is sent in it.

        Args:
            federation: The federation's name.
            run: The run's id.
        """
        self._database.execute(
            sa.update(_SESSIONS)
            .where(_SESSIONS.c.federation == federation, _SESSIONS.c.run == run)
            .where(_SESSIONS.c.ended_at.is_(None))
            .values(ended_at=now())
        )


def name_of(key: bytes) -> str:
    """A session's name: sha256 of its key, which is random and so is not told by it."""
    return hashlib.sha256(key).hexdigest()
