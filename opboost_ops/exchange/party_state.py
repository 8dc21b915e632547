"""A party's state: its database and the pin files that it refers to, opened as a unit."""

from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass

import sqlalchemy as sa

from opboost_ops.config.site import Site
from opboost_ops.errors import ConfigError
from opboost_ops.exchange.audit import Audit
from opboost_ops.mechanisms import noise
from opboost_ops.privacy.consent.agreements import AgreementRecords, Agreements
from opboost_ops.privacy.ledger.checkpoints import Checkpoints
from opboost_ops.privacy.ledger.database import Database, Records, has_tables
from opboost_ops.privacy.ledger.entries import Ledger
from opboost_ops.privacy.ledger.query_counts import QueryCounts, Sessions
from opboost_ops.privacy.ledger.tables import now, table
from opboost_ops.privacy.people import Forgotten, ForgottenPeople
from opboost_ops.privacy.pins import Pins
from opboost_ops.privacy.releases import Releases
from opboost_ops.tables.spill.arrays import Scratch
from opboost_ops.tables.spill.files import whole_file

_STORES = table("stores", {"federation": 160}, identity=32, since=40)

#: One row: the result of the last comparison of the state with the store.
_CHECKS = table("checks", {"id": int}, at=40, missing=int)


@dataclass(frozen=True)
class Pin:
    """The store that a federation's runs use: its identity, and since when (UTC)."""

    identity: str
    since: str


@dataclass(frozen=True)
class Check:
    """The result of comparing the state with the store.

    Attributes:
        at: Time, UTC.
        missing: Number of missing items; `opboost ledger check` lists them.
    """

    at: str
    missing: int


class PinnedStores(Records):
    """The identities of the stores that a party's runs have used."""

    def pins(self) -> Mapping[str, Pin]:
        """Return the store of each federation."""
        return self._database.unless_changed("pins", self._pins)

    def _pins(self) -> Mapping[str, Pin]:
        rows = self._database.rows(sa.select(_STORES).order_by(_STORES.c.federation))
        return {row.federation: Pin(row.identity, row.since) for row in rows}

    def pin(self, federation: str, identity: str) -> None:
        """Set the store that a federation uses from now on.

        Args:
            federation: Name of the federation.
            identity: Identity of the store.
        """
        row = {"federation": federation, "identity": identity, "since": now()}
        previous = _STORES.c.federation == federation
        self._database.execute(sa.delete(_STORES).where(previous), sa.insert(_STORES).values(row))

    def note_check(self, missing: int) -> None:
        """Record the result of comparing the state with the store.

        Args:
            missing: Number of missing items.
        """
        row = {"id": 1, "at": now(), "missing": missing}
        self._database.execute(sa.delete(_CHECKS), sa.insert(_CHECKS).values(row))

    def last_check(self) -> Check | None:
        """Return the result of the last comparison; None if there was none."""
        row = self._database.first(sa.select(_CHECKS))
        return Check(row.at, row.missing) if row is not None else None


#: File in the pins' folder with the ID of their database.
_MARK = "database"

#: States that `reuse_open_state` keeps open in this thread, by database and folders.
_OPENED: ContextVar["dict[object, PartyState] | None"] = ContextVar("opened", default=None)


class LostDatabase(ConfigError):  # noqa: N818
    """The database is missing or empty, although there was one before."""


@dataclass(frozen=True)
class PartyState:
    """A party's records of everything that it released and received.

    Attributes:
        ledger: Its ledger entries.
        releases: Its releases, and the pins of each.
        audit: Its audit log.
        sessions: The sessions of secure sums that it took part in.
        database: The database of all these records.
        checkpoints: Its checkpoint in each run, and the latest ones of other parties.
        query_counts: Label holders' queries in epochs of private alignment.
        agreements: Its agreements.
        forgotten: The people it was asked to forget.
        stores: The store of each of its federations.
        pins: Its pin files.
    """

    ledger: Ledger
    releases: Releases
    audit: Audit
    sessions: Sessions
    database: Database
    checkpoints: Checkpoints
    query_counts: QueryCounts
    agreements: AgreementRecords
    forgotten: Forgotten
    stores: PinnedStores
    pins: Pins

    @classmethod
    def of(cls, site: Site, database: Database) -> "PartyState":
        """Return a party's state in an open database, without checking its version.

        Args:
            site: The party's site.
            database: Its database.
        """
        forgotten = Forgotten(database, lambda: noise.keyed_by(site.read_secret(), "people"))
        scratch = Scratch(site.home, site.block_rows)
        pins = Pins(site.pins, scratch, lambda: noise.keyed_by(site.read_secret(), "pins"))
        return cls(
            Ledger(database),
            Releases(database, pins, forgotten),
            Audit(database),
            Sessions(database),
            database,
            Checkpoints(database),
            QueryCounts(database),
            AgreementRecords(database, site.party),
            forgotten,
            PinnedStores(database),
            pins,
        )

    def transaction(self) -> AbstractContextManager[object]:
        """Open a transaction: entries of ledger and audit log are added together or not at all.

        One transaction also syncs to disk only once, which is the slowest part.
        """
        return self.database.writing()


@contextmanager
def open_state(site: Site, *, fresh: bool = False) -> Iterator[PartyState]:
    """Open a party's state.

    Args:
        site: The party's site.
        fresh: Whether a new database may begin although pins show that there was one before.

    Raises:
        ConfigError: The database cannot be opened, or belongs to another party, another secret, or
            other pins.
        LostDatabase: The database is missing or empty, although there was one before.
    """
    url = site.ledger_url()
    opened = None if fresh else _OPENED.get()
    key = (site.party, url, site.pins, site.home, site.secret, site.block_rows)
    if opened is not None and key in opened:
        if opened[key].database.is_current():
            yield opened[key]
            return
        opened.pop(key).database.close()
    if not fresh and not has_tables(url):
        require_never_begun(site)
    database = Database(url)
    reused = False
    try:
        if not fresh and database.is_empty():
            require_never_begun(site)
        state = PartyState.of(site, database)
        identity = database.identity(site.party, _fingerprint(site), fresh=fresh)
        _require_one_database(site, identity, fresh)
        if opened is not None:
            opened[key], reused = state, True
        yield state
    finally:
        if not reused:
            database.close()


@contextmanager
def reuse_open_state() -> Iterator[None]:
    """Keep a party's state open in this thread after its first `open_state` within the block.

    The block may be a stage, or all stages of a process or task. Opening and closing take longer
    than most queries. After a restore, or a change in site.yaml, the state is opened again.
    """
    if _OPENED.get() is not None:
        yield
        return
    opened: dict[object, PartyState] = {}
    token = _OPENED.set(opened)
    try:
        yield
    finally:
        _OPENED.reset(token)
        for state in opened.values():
            state.database.close()


def agreements_of(site: Site) -> Agreements:
    """Return a party's agreements; none if it has no database yet.

    Args:
        site: The party's site.

    Raises:
        ConfigError: The database cannot be opened, or an agreement was changed.
    """
    if not has_tables(site.ledger_url()):
        return Agreements(party=site.party)
    with open_state(site) as state:
        return state.agreements.read()


def forgotten_of(site: Site) -> ForgottenPeople:
    """Return the people that a party has forgotten; none if it has no database yet.

    Args:
        site: The party's site.
    """
    if not has_tables(site.ledger_url()) and not site.pins.is_dir():
        return ForgottenPeople()
    with open_state(site) as state:
        return state.forgotten.read()


def _fingerprint(site: Site) -> str:
    """Return the fingerprint of the party's secret; empty if it has none, which only runs need."""
    with suppress(ConfigError):
        return noise.fingerprint(site.read_secret())
    return ""


def _require_one_database(site: Site, identity: str, fresh: bool) -> None:
    """Reject pins that belong to another database of the party."""
    mark = site.pins / _MARK
    if not site.pins.is_dir():
        return
    if not mark.is_file() or fresh:
        with whole_file(mark) as file:
            file.write(f"{identity}\n".encode())
    elif mark.read_text().strip() != identity:
        raise ConfigError(
            f"{site.party} has two databases: its pins belong to a different one than `ledger` in "
            "site.yaml names.",
            "Name the database in which its releases were charged.",
        )


def require_never_begun(site: Site) -> None:
    """Refuse to create a database if pins show that there was one before.

    Args:
        site: The party's site.

    Raises:
        LostDatabase: There was one; nothing was created.
    """
    if next(site.pins.glob("*.pins"), None) is None:
        return
    raise LostDatabase(
        f"The database of {site.party} is missing or empty, although there was one before: its "
        "earlier releases are unknown.",
        "Nothing was created. Restore the newest backup (`opboost restore`); without one, "
        "`opboost ledger recover SITE` begins a new database.",
    )
