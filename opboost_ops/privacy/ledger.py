"""The ledger: every release of a party, in a table to which lines are only added."""

import datetime

import sqlalchemy as sa

from opboost_ops.errors import ConfigError
from opboost_ops.privacy.events import Release

_METADATA = sa.MetaData()
_RELEASES = sa.Table(
    "releases",
    _METADATA,
    sa.Column("id", sa.Integer, primary_key=True),
    sa.Column("recorded_at", sa.String(40), nullable=False),
    sa.Column("artifact", sa.String(64), nullable=False),
    sa.Column("feature", sa.String(128), nullable=False),
    sa.Column("event", sa.JSON, nullable=False),
    sa.UniqueConstraint("artifact", "feature"),
)


class Ledger:
    """A party's own ledger, across all its federations.

    Args:
        url: SQLAlchemy URL of its database.
    """

    def __init__(self, url: str) -> None:
        engine: sa.Engine | None = None
        try:
            engine = sa.create_engine(url)
            _METADATA.create_all(engine)
        except (sa.exc.SQLAlchemyError, ImportError):
            # Their messages print the URL, which may hold a password.
            engine = None
        if engine is None:
            raise ConfigError(
                "The ledger's database cannot be opened.",
                "Check `ledger` in site.yaml, and that the database accepts this user.",
            )
        self._engine = engine

    def record(self, releases: list[Release]) -> int:
        """Add releases; one that is already there is not added again.

        Args:
            releases: What is about to leave.

        Returns:
            How many lines are new.
        """
        now = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
        new = 0
        for release in releases:
            line = {
                "recorded_at": now,
                "artifact": release.artifact,
                "feature": release.feature or "",
                "event": release.model_dump(mode="json"),
            }
            try:
                with self._engine.begin() as connection:
                    connection.execute(sa.insert(_RELEASES).values(line))
                new += 1
            except sa.exc.IntegrityError:
                continue
        return new

    def releases(self) -> list[Release]:
        """All releases, oldest first."""
        with self._engine.connect() as connection:
            rows = connection.execute(sa.select(_RELEASES.c.event).order_by(_RELEASES.c.id))
            return [Release.model_validate(event) for (event,) in rows]

    def close(self) -> None:
        """Give the database connections back."""
        self._engine.dispose()
