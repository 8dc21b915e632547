"""The ledger: every release of a party, reserved before it leaves, in entries only ever added.

Beside the entries lie running totals, one row for each noise key and one for each structure that
was disclosed, which every charge brings up to date: no charge adds up all nights before it.
"""

import datetime
import hashlib
import json
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any
from uuid import UUID

import sqlalchemy as sa

from opboost_ops.privacy.accountant import (
    Account,
    Key,
    Totals,
    discloses_missing,
    exact,
    stands_for,
    times,
)
from opboost_ops.privacy.database import METADATA, Database, plain_rows
from opboost_ops.privacy.events import Draw, Release
from opboost_ops.privacy.lines import Lines, curve_of, lines_of, release_of
from opboost_ops.privacy.loss import LossCurve
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

#: What each noise key has cost so far: the last of its draws.
_TOTALS = sa.Table(
    "totals",
    METADATA,
    sa.Column("column", sa.String(36), primary_key=True),
    sa.Column("cells", sa.String(16), primary_key=True),
    sa.Column("feature", sa.String(160), nullable=False),
    sa.Column("receiver", sa.String(160), nullable=False),
    sa.Column("draws", sa.Integer, nullable=False),
    sa.Column("number", sa.Integer, nullable=False),
    sa.Column("worst", sa.Integer, nullable=False),
    sa.Column("base", sa.Integer, nullable=False),
    sa.Column("most", sa.Integer),
    sa.Column("inputs", sa.Integer, nullable=False),
    sa.Column("loss", sa.Text, nullable=False),
    sa.Column("first", sa.Integer, nullable=False),
    sa.Column("last", sa.Integer, nullable=False),
)

#: Which edges of each column were ever disclosed exactly, and each column's last name.
_STRUCTURES = sa.Table(
    "structures",
    METADATA,
    sa.Column("column", sa.String(36), primary_key=True),
    sa.Column("digest", sa.String(64), primary_key=True),
    sa.Column("feature", sa.String(160), nullable=False),
    sa.Column("edges", sa.Text, nullable=False),
    sa.Column("span", sa.Text, nullable=False),
    sa.Column("exactly", sa.Boolean, nullable=False),
    sa.Column("first", sa.Integer, nullable=False),
    sa.Column("last", sa.Integer, nullable=False),
)

#: A line's event as its text, which databases keep in kinds of JSON of their own.
_TEXT = sa.cast(_RELEASES.c.event, sa.Text)

#: Called with the totals so far and the new releases; raises `BudgetError` to refuse them.
Rule = Callable[[Totals, Sequence[Release]], None]


#: How names of keys begin under which lost releases, and edges of cells, are charged.
LOST_KEY, EDGES_KEY = "lost", "edges"


def has_no_cells(cells: str) -> bool:
    """Whether a key's name is one without a state of cells.

    Args:
        cells: The name: 16 hex digits, but for those of lost releases and of private edges.
    """
    return cells.startswith((LOST_KEY, EDGES_KEY))


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
                rule(_totals(connection), new)
            add_entries(connection, new)
        return len(new)

    def require(self, releases: Sequence[Release], rule: Rule) -> None:
        """Ask a rule about releases that nobody reserves; nothing is written.

        Args:
            releases: What may leave later.
            rule: Whether they may be charged to what was released before.

        Raises:
            BudgetError: By the rule.
        """
        with self._database.reading() as connection:
            before = _totals(connection)
        rule(before, releases)

    def totals(self) -> Totals:
        """What all releases have come to, by column."""
        with self._database.reading() as connection:
            return _totals(connection)

    def worst(self, column: UUID, cells: str) -> Worst:
        """The public worst case of a column under a noise key, as far as draws are numbered.

        Args:
            column: The column's UUID.
            cells: Name of the noise key.
        """
        with self._database.reading() as connection:
            row = connection.execute(
                sa.select(_TOTALS.c.worst, _TOTALS.c.base, _TOTALS.c.number).where(
                    _TOTALS.c.column == str(column), _TOTALS.c.cells == cells
                )
            ).first()
        return Worst(*row) if row is not None else Worst()

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

    def runs(self, federation: str, kinds: Collection[str]) -> set[str]:
        """The runs of a federation of which there is an entry of some kinds.

        Args:
            federation: Its name.
            kinds: Kinds of artifact.
        """
        event = _RELEASES.c.event
        run = event["run"].as_string()
        here = event["federation"].as_string() == federation
        query = sa.select(run).where(here, event["kind"].as_string().in_(kinds)).distinct()
        with self._database.reading() as connection:
            return set(connection.execute(query).scalars())

    def known(self, artifacts: Iterable[str]) -> set[str]:
        """Which of some artifacts, or draws, there are lines of.

        Args:
            artifacts: Their digests, or names; a few.
        """
        wanted = sorted(artifacts)
        with self._database.reading() as connection:
            query = sa.select(_RELEASES.c.artifact).where(_RELEASES.c.artifact.in_(wanted))
            return set(connection.execute(query).scalars())

    def drawn(self, kind: str, names: Collection[str]) -> set[str]:
        """Which of some draws there are entries of.

        Args:
            kind: Kind of entry.
            names: Names of draws, as `Release.draws` has them.
        """
        event = _RELEASES.c.event
        draws = event["draws"].as_string()
        query = sa.select(draws).where(event["kind"].as_string() == kind, draws.in_(sorted(names)))
        with self._database.reading() as connection:
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
        """All lines, oldest first, for callers that read few of them whole.

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
        # A draw is complete once it is charged: its artifacts have entries of their own.
        artifact = _RELEASES.c.event["draw"]["number"].as_integer().is_(None)
        query = sa.select(_TEXT).where(~known, artifact).order_by(_RELEASES.c.id)
        with self._database.reading() as connection:
            return [release_of(event) for (event,) in connection.execute(query)]


def add_up(connection: sa.Connection, releases: Iterable[tuple[int, Release]]) -> None:
    """Bring the totals up to entries that were added.

    Args:
        connection: The transaction.
        releases: The entries, each with its number.
    """
    for number, line in releases:
        if line.account == "exact" or line.column is None:
            continue
        _add_structure(connection, number, line)
        if line.draw is not None and line.loss is not None:
            _add_draw(connection, number, line, line.draw, line.loss)


def _add_draw(
    connection: sa.Connection, number: int, line: Release, draw: Draw, loss: LossCurve
) -> None:
    here = (_TOTALS.c.column == str(line.column), _TOTALS.c.cells == (line.cells or ""))
    before = connection.execute(sa.select(_TOTALS.c.draws, _TOTALS.c.first).where(*here)).first()
    connection.execute(sa.delete(_TOTALS).where(*here))
    row = {
        "column": str(line.column),
        "cells": line.cells or "",
        "feature": line.feature or "",
        "receiver": line.receiver,
        "draws": (before.draws if before else 0) + stands_for(line),
        "number": draw.number,
        "worst": draw.worst,
        "base": draw.base,
        "most": draw.most,
        "inputs": draw.inputs,
        "loss": loss.model_dump_json(),
        "first": before.first if before else number,
        "last": number,
    }
    connection.execute(sa.insert(_TOTALS).values(row))


def _add_structure(connection: sa.Connection, number: int, line: Release) -> None:
    """Also of a column without edges: its name, and when it first came, are in a row."""
    edges, span = json.dumps(line.edges), json.dumps(line.span)
    exactly = discloses_missing(line)
    if line.draw is not None and not line.edges:
        return
    digest = hashlib.sha256(f"{edges}{span}{exactly}".encode()).hexdigest()
    here = (_STRUCTURES.c.column == str(line.column), _STRUCTURES.c.digest == digest)
    changes: dict[str, Any] = {"feature": (line.feature or "").partition("=")[0], "last": number}
    if connection.execute(sa.update(_STRUCTURES).where(*here).values(changes)).rowcount:
        return
    row: dict[str, Any] = {"column": str(line.column), "digest": digest}
    row |= {"edges": edges, "span": span}
    row |= {"exactly": exactly, "first": number}
    connection.execute(sa.insert(_STRUCTURES).values({**row, **changes}))


def _totals(connection: sa.Connection) -> Totals:
    first: dict[UUID, int] = {}
    named: dict[UUID, tuple[int, str]] = {}
    found: dict[UUID, Account] = {}
    for row in connection.execute(sa.select(_TOTALS).order_by(_TOTALS.c.last)):
        column = UUID(row.column)
        account = found.setdefault(column, Account(""))
        feature, _, bit = row.feature.partition("=")
        loss = curve_of(row.loss)
        key = Key(
            bit=bit,
            cells=row.cells,
            receiver=row.receiver,
            draws=row.draws,
            worst=Worst(row.worst, row.base, row.number),
            most=row.most,
            inputs=row.inputs,
            loss=loss,
        )
        account.keys[bit, row.cells] = key
        account.releases += 0 if bit else row.draws
        # Every entry of a key adds what it raises the worst case by.
        account.step += times(exact(loss.loss[0]), row.worst)
        account.whole += times(exact(loss.loss[-1]), row.worst)
        first[column] = min(row.first, first.get(column, row.first))
        named[column] = max((row.last, feature), named.get(column, (0, "")))
    for row in connection.execute(sa.select(_STRUCTURES)):
        column = UUID(row.column)
        account = found.setdefault(column, Account(""))
        span = json.loads(row.span)
        account.structure.add(json.loads(row.edges), tuple(span) if span else None, row.exactly)
        first[column] = min(row.first, first.get(column, row.first))
        named[column] = max((row.last, row.feature), named.get(column, (0, "")))
    for column, (_, feature) in named.items():
        found[column].feature = feature
    account = _RELEASES.c.event["account"].as_string()
    models = connection.execute(sa.select(_TEXT).where(account == "model").order_by(_RELEASES.c.id))
    ordered = {column: found[column] for column in sorted(found, key=first.__getitem__)}
    return Totals(ordered, tuple(release_of(event) for (event,) in models))


def add_entries(connection: sa.Connection, releases: Sequence[Release]) -> None:
    """Add entries, none of which is there yet, and bring the totals up to them.

    Args:
        connection: A transaction.
        releases: The entries.
    """
    if not releases:
        return
    now = _now()
    last = connection.execute(sa.select(sa.func.max(_RELEASES.c.id))).scalar() or 0
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
    add_up(connection, lines_after(connection, last))


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


def _now() -> str:
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
