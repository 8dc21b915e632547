"""The ledger: every release of a party, reserved before it leaves, in entries only ever added.

Beside the entries lie running totals, one row for each noise key and one for each structure that
was disclosed, which every charge brings up to date: no charge adds up all nights before it.
"""

from collections.abc import Callable, Collection, Iterable, Sequence
from uuid import UUID

import sqlalchemy as sa

from opboost_ops.privacy.accountant import Account, Totals
from opboost_ops.privacy.database import Records, plain_rows
from opboost_ops.privacy.events import Release, release_of
from opboost_ops.privacy.ledger_totals import accounts_of, add_up, worst_of
from opboost_ops.privacy.tables import COUNTED, now, table
from opboost_ops.privacy.worst_case import CellBound

_RELEASES = table(
    "releases",
    {"id": COUNTED},
    sa.UniqueConstraint("artifact", "feature"),
    recorded_at=40,
    artifact=64,
    feature=160,
    event=sa.JSON,
)
_COMMITS = table("commits", {"artifact": 64}, committed_at=40)

#: A line's event as its text, which databases keep in kinds of JSON of their own.
_TEXT = sa.cast(_RELEASES.c.event, sa.Text)

#: An entry, and when it was reserved (UTC).
Dated = tuple[str, Release]

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


class Ledger(Records):
    """A party's own ledger, across all its federations.

    A release is reserved before it is published and committed afterwards. What is reserved is
    charged: a crash in between charges what was perhaps not released, never the other way round,
    and the retry completes the same reservation.
    """

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

    def accounts(self) -> dict[UUID, Account]:
        """What each column has cost."""
        with self._database.reading() as connection:
            return accounts_of(connection, _RELEASES)

    def totals(self) -> Totals:
        """The same, and the entries of private models."""
        with self._database.reading() as connection:
            return _totals(connection)

    def worst(self, column: UUID, cells: str) -> CellBound:
        """The public worst case of a column under a noise key, as far as draws are numbered.

        Args:
            column: The column's UUID.
            cells: Name of the noise key.
        """
        with self._database.reading() as connection:
            return worst_of(connection, column, cells)

    def commit(self, artifact: str) -> None:
        """Note that an artifact lies in the store, so that its reservation is complete.

        Args:
            artifact: Its digest.
        """
        with self._database.writing():
            if not self.committed(artifact):
                line = {"artifact": artifact, "committed_at": now()}
                self._database.execute(sa.insert(_COMMITS).values(line))

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
        return set(self._database.column(query))

    def known(self, artifacts: Iterable[str]) -> set[str]:
        """Which of some artifacts, or draws, there are lines of.

        Args:
            artifacts: Their digests, or names; a few.
        """
        known = _RELEASES.c.artifact
        return set(self._database.column(sa.select(known).where(known.in_(sorted(artifacts)))))

    def drawn(self, kind: str, names: Collection[str]) -> set[str]:
        """Which of some draws there are entries of.

        Args:
            kind: Kind of entry.
            names: Names of draws, as `Release.draws` has them.
        """
        event = _RELEASES.c.event
        draws = event["draws"].as_string()
        query = sa.select(draws).where(event["kind"].as_string() == kind, draws.in_(sorted(names)))
        return set(self._database.column(query))

    def committed(self, artifact: str) -> bool:
        """Whether an artifact is known to lie in the store."""
        known = sa.select(_COMMITS.c.artifact).where(_COMMITS.c.artifact == artifact)
        return self._database.first(known) is not None

    def releases(self) -> list[Release]:
        """All releases, oldest first, reserved or committed."""
        with self._database.reading() as connection:
            return all_releases(connection)

    def dated(self) -> list[Dated]:
        """All entries, oldest first, each with when it was reserved (UTC).

        Raises:
            ValidationError: The text of an entry is none.
        """
        query = sa.select(_RELEASES.c.recorded_at, _TEXT).order_by(_RELEASES.c.id)
        with self._database.reading() as connection:
            rows = plain_rows(connection, query)
        return [(at, release_of(text)) for at, text in rows]

    def of_run(self, federation: str, run: str) -> list[Dated]:
        """The entries of a run, as `dated` gives them.

        Args:
            federation: The run's federation: in another one its id may name another run.
            run: Its id.

        Raises:
            ValidationError: The text of an entry in which that id stands is none.
        """
        query = sa.select(_RELEASES.c.recorded_at, _TEXT).where(
            _TEXT.contains(run, autoescape=True)
        )
        rows = self._database.rows(query.order_by(_RELEASES.c.id))
        found = [(at, release_of(text)) for at, text in rows]
        this = (federation, run)
        return [(at, line) for at, line in found if (line.federation, line.run) == this]

    def uncommitted(self) -> list[Release]:
        """Artifacts that are charged and of which it is not known that they were published."""
        known = sa.exists().where(_COMMITS.c.artifact == _RELEASES.c.artifact)
        # A draw is complete once it is charged: its artifacts have entries of their own.
        artifact = _RELEASES.c.event["draw"]["number"].as_integer().is_(None)
        query = sa.select(_TEXT).where(~known, artifact).order_by(_RELEASES.c.id)
        return list(map(release_of, self._database.column(query)))


def _totals(connection: sa.Connection) -> Totals:
    account = _RELEASES.c.event["account"].as_string()
    models = connection.execute(sa.select(_TEXT).where(account == "model").order_by(_RELEASES.c.id))
    return Totals(
        accounts_of(connection, _RELEASES), tuple(release_of(event) for (event,) in models)
    )


def add_entries(connection: sa.Connection, releases: Sequence[Release]) -> None:
    """Add entries, none of which is there yet, and bring the totals up to them.

    Args:
        connection: A transaction.
        releases: The entries.
    """
    if not releases:
        return
    last = connection.execute(sa.select(sa.func.max(_RELEASES.c.id))).scalar() or 0
    at = now()
    lines = [
        {
            "recorded_at": at,
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
