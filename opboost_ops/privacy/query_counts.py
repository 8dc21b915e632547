"""About how many people a label holder has queried, over all runs.

In a month the same person is the same point, so only new people count. Of the month's points so
much is kept as tells them apart, until the month is over. Runs of releases before the sealed
release that had exponents of their own count with all their people.
"""

import base64
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass

import numpy as np
import sqlalchemy as sa

from opboost_ops.privacy.database import Records
from opboost_ops.privacy.events import Release
from opboost_ops.privacy.tables import table

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
    """What was asked.

    Attributes:
        epoch: About how many different people in the epoch, this query's among them.
        ever: About how many in all runs together, where those of an epoch count once in it.
    """

    epoch: int
    ever: int


@dataclass(frozen=True)
class AnsweredQueries:
    """What a label holder was answered so far.

    Attributes:
        federation: Name of the federation.
        receiver: Who asked.
        epoch: The last month in which it asked.
        counted: How many people until now.
    """

    federation: str
    receiver: str
    epoch: str
    counted: QueryCount


class QueryCounts(Records):
    """A party's account of what label holders asked it."""

    def count(
        self,
        question: Question,
        parts: Iterable[np.ndarray],
        of: int,
        releases: Callable[[], Iterable[Release]],
        kept: Collection[str],
        require: Callable[[QueryCount], None],
    ) -> QueryCount:
        """Count a query in its epoch, before it is answered; no other writer comes between.

        It is counted once: a retry finds it there.

        Args:
            question: Whose and which.
            parts: Its points, sorted, uint8, shape (k, at least 16), part by part; parts are cut
                by their first bits. One of the points is nobody's.
            of: How many parts, a power of two.
            releases: Returns all ledger entries.
            kept: Epochs whose points are still needed; those of others are taken out.
            require: Refuses by raising; then nothing was counted.
        """
        place = {n: getattr(question, n) for n in ("federation", "receiver", "epoch")}
        here = [_QUERIES.c[name] == value for name, value in place.items()]
        with self._database.writing() as connection:
            known = sa.select(_QUERIES.c.query).where(*here, _QUERIES.c.query == question.query)
            if connection.execute(known).first() is None:
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
            total = sa.select(sa.func.sum(_QUERIES.c.people)).where(*here)
            counted = QueryCount(
                int(connection.execute(total).scalar() or 0),
                self._ever(connection, releases(), question.receiver),
            )
            require(counted)
            connection.execute(sa.delete(_POINTS).where(_POINTS.c.epoch.not_in(kept)))
        return counted

    def answered(self, releases: Collection[Release]) -> list[AnsweredQueries]:
        """How many people each label holder has queried, in its last month and in all.

        Args:
            releases: All ledger entries of answers.
        """
        place = (_QUERIES.c.federation, _QUERIES.c.receiver, _QUERIES.c.epoch)
        sums = sa.select(*place, sa.func.sum(_QUERIES.c.people)).group_by(*place).order_by(*place)
        with self._database.reading() as connection:
            last = {(name, who): found for name, who, *found in connection.execute(sums)}
            return [
                AnsweredQueries(name, who, month, QueryCount(int(people), ever))
                for (name, who), (month, people) in last.items()
                for ever in [self._ever(connection, releases, who)]
            ]

    def _ever(
        self,
        connection: sa.Connection,
        releases: Iterable[Release],
        receiver: str,
    ) -> int:
        rows = connection.execute(
            sa.select(_QUERIES.c.federation, _QUERIES.c.run, _QUERIES.c.people).where(
                _QUERIES.c.receiver == receiver
            )
        ).all()
        in_epochs = {(federation, run) for federation, run, _ in rows}
        return int(sum(people for _, _, people in rows)) + sum(
            line.rows
            for line in releases
            if line.kind == "psi_answer"
            and line.receiver == receiver
            and (line.federation, line.run) not in in_epochs
        )


def _fresh(
    connection: sa.Connection, place: dict[str, str], points: np.ndarray, part: int, parts: int
) -> np.ndarray:
    """Which of a part's points no earlier query of the epoch has, shape (k,), 16 bytes each."""
    found = np.ascontiguousarray(points[:, :KEPT]).view(f"V{KEPT}").ravel()
    earlier = connection.execute(
        sa.select(_POINTS.c.part, _POINTS.c.parts, _POINTS.c.points).where(
            *(_POINTS.c[name] == value for name, value in place.items())
        ),
        execution_options={"yield_per": 1},
    )
    for other, of, kept in earlier:
        # Parts are cut by first bits: of two one holds the other, or they have nothing in common.
        if other * parts // of == part if of >= parts else part * of // parts == other:
            seen = np.frombuffer(base64.b64decode(kept), dtype=f"V{KEPT}")
            found = found[~np.isin(found, seen)]
    return found
