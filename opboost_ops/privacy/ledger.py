"""The ledger: every release of a party, reserved before it leaves, in lines only ever added."""

import datetime
from collections.abc import Callable, Iterable, Sequence
from uuid import UUID

import sqlalchemy as sa

from opboost_ops.privacy.database import METADATA, Database, plain_rows
from opboost_ops.privacy.events import Release
from opboost_ops.privacy.forgotten import Forgotten
from opboost_ops.privacy.lines import Lines, lines_of, release_of
from opboost_ops.privacy.worst import Worst

_RELEASES = sa.Table(
    "releases",
    METADATA,
    sa.Column("id", sa.Integer, primary_key=True),
    sa.Column("recorded_at", sa.String(40), nullable=False),
    sa.Column("artifact", sa.String(64), nullable=False),
    sa.Column("feature", sa.String(160), nullable=False),
    sa.Column("event", sa.JSON, nullable=False),
    sa.UniqueConstraint("artifact", "feature"),
)
_COMMITS = sa.Table(
    "commits",
    METADATA,
    sa.Column("artifact", sa.String(64), primary_key=True),
    sa.Column("committed_at", sa.String(40), nullable=False),
)

#: Which draws there were under each noise key; what each was charged is in its line.
_DRAWS = sa.Table(
    "draws",
    METADATA,
    sa.Column("id", sa.Integer, primary_key=True),
    sa.Column("column", sa.String(36), nullable=False),
    sa.Column("cells", sa.String(16), nullable=False),
    sa.Column("number", sa.Integer, nullable=False),
    sa.Column("name", sa.String(64), nullable=False),
    sa.Column("worst", sa.Integer, nullable=False),
    sa.Column("base", sa.Integer, nullable=False),
    sa.UniqueConstraint("column", "cells", "number"),
    sa.UniqueConstraint("column", "cells", "name"),
)

#: The list of forgotten persons once more: what a file has lost is found here.
_FORGOTTEN = sa.Table(
    "forgotten",
    METADATA,
    sa.Column("key", sa.String(64), primary_key=True),
    sa.Column("person", sa.String(32), primary_key=True),
)

#: A line's event as its text, which databases keep in kinds of JSON of their own.
_TEXT = sa.cast(_RELEASES.c.event, sa.Text)

#: Called with what counts of all releases so far, and the new ones; raises `BudgetError` to refuse
#: them. See `_charged`.
Rule = Callable[[Sequence[Release], Sequence[Release]], None]


class Ledger:
    """A party's own ledger, across all its federations.

    A release is reserved before it is published and committed afterwards. What is reserved is
    charged: a crash in between charges what was perhaps not released, never the other way round,
    and the retry completes the same reservation.

    Args:
        database: The party's.
    """

    def __init__(self, database: Database) -> None:
        self._database = database

    def reserve(self, releases: Sequence[Release], rule: Rule | None = None) -> int:
        """Add releases; one that is already there is not added again.

        No other writer comes between the rule's decision and the lines.

        Args:
            releases: What is about to leave.
            rule: Whether they may be charged to what was released before.

        Returns:
            How many lines are new.

        Raises:
            BudgetError: By the rule; nothing was added.
        """
        with self._database.writing() as connection:
            wanted = {(r.artifact, r.feature or ""): r for r in releases}
            artifacts = sorted({artifact for artifact, _ in wanted})
            known = connection.execute(
                sa.select(_RELEASES.c.artifact, _RELEASES.c.feature).where(
                    _RELEASES.c.artifact.in_(artifacts)
                )
            )
            for artifact, feature in known:
                wanted.pop((artifact, feature), None)
            new = list(wanted.values())
            if rule is not None and any(r.account != "exact" for r in new):
                rule(_charged(connection), new)
            _insert(connection, new)
        return len(new)

    def charge(self, draws: Sequence[Release], rule: Rule | None = None) -> None:
        """Add draws, which are complete as they are.

        Args:
            draws: Lines with a `Release.draw`, none of which is there yet.
            rule: Whether they may be charged to what was released before.

        Raises:
            BudgetError: By the rule; nothing was added.
        """
        with self._database.writing() as connection:
            if rule is not None and draws:
                rule(_charged(connection), draws)
            add_draws(connection, draws)

    def require(self, releases: Sequence[Release], rule: Rule) -> None:
        """Ask a rule about releases that nobody reserves; nothing is written.

        Args:
            releases: What may leave later.
            rule: Whether they may be charged to what was released before.

        Raises:
            BudgetError: By the rule.
        """
        with self._database.reading() as connection:
            before = _charged(connection)
        rule(before, releases)

    def worst(self, column: UUID, cells: str) -> Worst:
        """The public worst case of a column under a noise key, as far as draws are numbered.

        Args:
            column: The column's UUID.
            cells: Name of the noise key.
        """
        with self._database.reading() as connection:
            row = connection.execute(
                sa.select(_DRAWS.c.worst, _DRAWS.c.base, _DRAWS.c.number)
                .where(_DRAWS.c.column == str(column), _DRAWS.c.cells == cells)
                .order_by(_DRAWS.c.number.desc())
                .limit(1)
            ).first()
        return Worst(*row) if row is not None else Worst()

    def drawn(self, column: UUID, cells: str, name: str) -> bool:
        """Whether a draw was charged.

        Args:
            column: The column's UUID.
            cells: Name of the noise key.
            name: Of the draw.
        """
        with self._database.reading() as connection:
            known = sa.select(_DRAWS.c.id).where(
                _DRAWS.c.column == str(column), _DRAWS.c.cells == cells, _DRAWS.c.name == name
            )
            return connection.execute(known).first() is not None

    def run_of(self, column: UUID, cells: str, number: int) -> str:
        """In which run a draw was taken; empty where none was, or none is known.

        Args:
            column: The column's UUID.
            cells: Name of the noise key.
            number: Of the draw.
        """
        with self._database.reading() as connection:
            name = sa.select(_DRAWS.c.name).where(
                _DRAWS.c.column == str(column),
                _DRAWS.c.cells == cells,
                _DRAWS.c.number == number,
            )
            line = sa.select(_TEXT).where(_RELEASES.c.artifact == name.scalar_subquery())
            event = connection.execute(line.limit(1)).scalar()
        return release_of(event).run if event is not None else ""

    def complete(self, forgotten: Forgotten) -> bool:
        """Let the list of forgotten persons and its copy here have what either has.

        Args:
            forgotten: The list.

        Returns:
            Whether the list had lost somebody.
        """
        with self._database.writing() as connection:
            copy = self.forgotten()
            listed = forgotten.entries()
            if listed - copy:
                new = [{"key": key, "person": person} for key, person in sorted(listed - copy)]
                connection.execute(sa.insert(_FORGOTTEN), new)
            if copy - listed:
                forgotten.merge(copy)
        return bool(copy - listed)

    def forgotten(self) -> set[tuple[str, str]]:
        """The copy of the list of forgotten persons, as `Forgotten.entries` gives it."""
        with self._database.reading() as connection:
            rows = connection.execute(sa.select(_FORGOTTEN.c.key, _FORGOTTEN.c.person))
            return {(key, person) for key, person in rows}

    def commit(self, artifact: str) -> None:
        """Note that an artifact lies in the store, so that its reservation is complete.

        Args:
            artifact: Its digest.
        """
        with self._database.writing() as connection:
            known = sa.select(_COMMITS.c.artifact).where(_COMMITS.c.artifact == artifact)
            if connection.execute(known).first() is None:
                line = {"artifact": artifact, "committed_at": _now()}
                connection.execute(sa.insert(_COMMITS).values(line))

    def last_line(self) -> int:
        """Number of the last line; 0 if there is none."""
        with self._database.reading() as connection:
            return connection.execute(sa.select(sa.func.max(_RELEASES.c.id))).scalar() or 0

    def known(self, artifacts: Iterable[str]) -> set[str]:
        """Which of some artifacts, or draws, there are lines of.

        Args:
            artifacts: Their digests, or names; a few.
        """
        wanted = sorted(artifacts)
        with self._database.reading() as connection:
            query = sa.select(_RELEASES.c.artifact).where(_RELEASES.c.artifact.in_(wanted))
            return set(connection.execute(query).scalars())

    def committed(self, artifact: str) -> bool:
        """Whether an artifact is known to lie in the store."""
        with self._database.reading() as connection:
            known = sa.select(_COMMITS.c.artifact).where(_COMMITS.c.artifact == artifact)
            return connection.execute(known).first() is not None

    def releases(self) -> list[Release]:
        """All releases, oldest first, reserved or committed."""
        with self._database.reading() as connection:
            return all_releases(connection)

    def lines(self) -> Lines:
        """All lines, oldest first, for whoever reads few of them whole.

        Raises:
            ValidationError: The text of a line is none.
        """
        query = sa.select(_RELEASES.c.recorded_at, _TEXT).order_by(_RELEASES.c.id)
        with self._database.reading() as connection:
            rows = plain_rows(connection, query)
        return lines_of(rows)

    def of_run(self, run: str) -> Lines:
        """The lines of a run, oldest first; `Lines.numbers` are their places among themselves.

        Args:
            run: Its id.

        Raises:
            ValidationError: The text of a line in which that id stands is none.
        """
        query = sa.select(_RELEASES.c.recorded_at, _TEXT).where(
            _TEXT.contains(run, autoescape=True)
        )
        with self._database.reading() as connection:
            rows = connection.execute(query.order_by(_RELEASES.c.id)).tuples().all()
        return lines_of(rows).of_run(run)

    def dated(self) -> list[tuple[str, Release]]:
        """All lines, oldest first, each with when it was reserved (UTC)."""
        return [*self.lines()]

    def uncommitted(self) -> list[Release]:
        """Artifacts that are charged and of which it is not known that they were published."""
        known = sa.exists().where(_COMMITS.c.artifact == _RELEASES.c.artifact)
        with self._database.reading() as connection:
            rows = connection.execute(sa.select(_TEXT).where(~known).order_by(_RELEASES.c.id))
            return [release_of(event) for (event,) in rows]


def add_draws(connection: sa.Connection, draws: Sequence[Release]) -> None:
    """Add draws within a transaction; see `Ledger.charge`.

    Args:
        connection: The transaction.
        draws: Lines with a `Release.draw`.
    """
    if not draws:
        return
    _insert(connection, draws)
    facts = [(line, line.draw) for line in draws if line.draw is not None]
    rows = [
        {
            "column": str(line.column),
            "cells": line.cells or "",
            "number": draw.number,
            "name": line.artifact,
            "worst": draw.worst,
            "base": draw.base,
        }
        for line, draw in facts
    ]
    connection.execute(sa.insert(_DRAWS), rows)
    # A draw is complete once it is charged: whether it is published is its artifacts' own matter.
    names = {line.artifact for line in draws}
    there = sa.select(_COMMITS.c.artifact).where(_COMMITS.c.artifact.in_(names))
    known = set(connection.execute(there).scalars())
    new = dict.fromkeys(line.artifact for line in draws if line.artifact not in known)
    if new:
        now = _now()
        commits = [{"artifact": artifact, "committed_at": now} for artifact in new]
        connection.execute(sa.insert(_COMMITS), commits)


def _insert(connection: sa.Connection, releases: Sequence[Release]) -> None:
    if releases:
        now = _now()
        lines = [
            {
                "recorded_at": now,
                "artifact": release.artifact,
                "feature": release.feature or "",
                "event": release.model_dump(mode="json"),
            }
            for release in releases
        ]
        connection.execute(sa.insert(_RELEASES), lines)


def lines_after(connection: sa.Connection, line: int) -> list[tuple[int, Release]]:
    """Lines after a line, each with its number, oldest first.

    Args:
        connection: To the database.
        line: Number of the line; 0 for all.
    """
    rows = connection.execute(
        sa.select(_RELEASES.c.id, _TEXT).where(_RELEASES.c.id > line).order_by(_RELEASES.c.id)
    )
    return [(number, release_of(event)) for number, event in rows]


def all_releases(connection: sa.Connection) -> list[Release]:
    """All lines, oldest first.

    Args:
        connection: To the database.
    """
    rows = connection.execute(sa.select(_TEXT).order_by(_RELEASES.c.id))
    return [release_of(event) for (event,) in rows]


def _charged(connection: sa.Connection) -> list[Release]:
    """The lines that budgets add up, oldest first; most lines are none of them.

    What is exact costs nothing; randomised artifacts were charged by their draws, and disclose
    nothing more where they have no edges; draws under a cap that is reached add nothing.
    """
    event = _RELEASES.c.event
    account = event["account"].as_string()
    draws_more = event["draw"]["added"].as_integer() != 0
    has_edges = event["edges"].as_string() != "[]"
    counts = sa.or_(~account.in_(("exact", "local_dp")), draws_more, has_edges)
    rows = connection.execute(
        sa.select(_TEXT).where(account != "exact", counts).order_by(_RELEASES.c.id)
    )
    return [release_of(event) for (event,) in rows]


def _now() -> str:
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
