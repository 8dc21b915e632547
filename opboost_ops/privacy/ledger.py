"""The ledger: every release of a party, reserved before it leaves, in lines only ever added."""

import datetime
from collections.abc import Callable, Sequence

import sqlalchemy as sa

from opboost_ops.privacy.database import METADATA, Database
from opboost_ops.privacy.events import Release

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

#: Called with all releases so far and the new ones; raises `BudgetError` to refuse them.
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
        now = _now()
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
                rule(_all(connection), new)
            if new:
                lines = [
                    {
                        "recorded_at": now,
                        "artifact": release.artifact,
                        "feature": release.feature or "",
                        "event": release.model_dump(mode="json"),
                    }
                    for release in new
                ]
                connection.execute(sa.insert(_RELEASES), lines)
        return len(new)

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

    def committed(self, artifact: str) -> bool:
        """Whether an artifact is known to lie in the store."""
        with self._database.reading() as connection:
            known = sa.select(_COMMITS.c.artifact).where(_COMMITS.c.artifact == artifact)
            return connection.execute(known).first() is not None

    def releases(self) -> list[Release]:
        """All releases, oldest first, reserved or committed."""
        with self._database.reading() as connection:
            return _all(connection)

    def dated(self) -> list[tuple[str, Release]]:
        """The same, each with when it was reserved (UTC)."""
        with self._database.reading() as connection:
            rows = connection.execute(
                sa.select(_RELEASES.c.recorded_at, _RELEASES.c.event).order_by(_RELEASES.c.id)
            )
            return [(at, Release.model_validate(event)) for at, event in rows]

    def uncommitted(self) -> list[Release]:
        """Artifacts that are charged and of which it is not known that they were published."""
        with self._database.reading() as connection:
            committed = set(connection.execute(sa.select(_COMMITS.c.artifact)).scalars())
            return [r for r in _all(connection) if r.artifact not in committed]


def _all(connection: sa.Connection) -> list[Release]:
    rows = connection.execute(sa.select(_RELEASES.c.event).order_by(_RELEASES.c.id))
    return [Release.model_validate(event) for (event,) in rows]


def _now() -> str:
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
