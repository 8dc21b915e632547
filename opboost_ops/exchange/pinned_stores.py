"""What a party's database says of its stores: which one a federation uses, and the last check."""

from collections.abc import Mapping
from dataclasses import dataclass

import sqlalchemy as sa

from opboost_ops.privacy.ledger.database import Records
from opboost_ops.privacy.ledger.tables import now, table

_STORES = table("stores", {"federation": 160}, identity=32, since=40)

#: One row: what the last comparison of the state with the store found.
_CHECKS = table("checks", {"id": int}, at=40, missing=int)


@dataclass(frozen=True)
class Pin:
    """The store that a federation's runs use: its identity, and since when, UTC."""

    identity: str
    since: str


@dataclass(frozen=True)
class Check:
    """The outcome of a comparison of the state with the store.

    Attributes:
        at: When, UTC.
        missing: How many things were missing; `opboost ledger check` says which.
    """

    at: str
    missing: int


class PinnedStores(Records):
    """The identities of the stores that a party's runs have used."""

    def pins(self) -> Mapping[str, Pin]:
        """By federation."""
        return self._database.unless_changed("pins", self._pins)

    def _pins(self) -> Mapping[str, Pin]:
        rows = self._database.rows(sa.select(_STORES).order_by(_STORES.c.federation))
        return {row.federation: Pin(row.identity, row.since) for row in rows}

    def pin(self, federation: str, identity: str) -> None:
        """From now on, a federation uses the store of this identity.

        Args:
            federation: The federation's name.
            identity: The store's.
        """
        row = {"federation": federation, "identity": identity, "since": now()}
        here = _STORES.c.federation == federation
        self._database.execute(sa.delete(_STORES).where(here), sa.insert(_STORES).values(row))

    def note_check(self, missing: int) -> None:
        """Keep the outcome of a comparison of the state with the store.

        Args:
            missing: How many things were missing.
        """
        row = {"id": 1, "at": now(), "missing": missing}
        self._database.execute(sa.delete(_CHECKS), sa.insert(_CHECKS).values(row))

    def last_check(self) -> Check | None:
        """The outcome of the last one; None where there was none."""
        row = self._database.first(sa.select(_CHECKS))
        return Check(row.at, row.missing) if row is not None else None
