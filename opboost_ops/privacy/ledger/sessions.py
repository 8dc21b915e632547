"""Sessions of sums: a run's rounds take place once, and the ledger records that permanently."""

import hashlib
from dataclasses import dataclass

import sqlalchemy as sa

from opboost_ops.privacy.ledger.database import Records
from opboost_ops.privacy.ledger.tables import now, table

_SESSIONS = table(
    "sessions",
    {"federation": 160, "run": 40},
    optional="ended_at",
    name=64,
    begun_at=40,
    ended_at=40,
)


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
