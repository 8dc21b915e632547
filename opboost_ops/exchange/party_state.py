"""A party's state: one database and the cell files that it points to, opened together."""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from uuid import UUID

from opboost_ops.config.site import Site
from opboost_ops.errors import ConfigError
from opboost_ops.exchange.audit import Audit
from opboost_ops.exchange.pinned_stores import PinnedStores
from opboost_ops.mechanisms.noise import read_secret
from opboost_ops.privacy.accountant import Key
from opboost_ops.privacy.agreements import AgreementRecords, Agreements
from opboost_ops.privacy.cells import Cells
from opboost_ops.privacy.checkpoints import Checkpoints
from opboost_ops.privacy.database import Database, has_tables
from opboost_ops.privacy.draws import Draws
from opboost_ops.privacy.forgotten import Forgotten, ForgottenPeople
from opboost_ops.privacy.ledger import Ledger, has_no_cells
from opboost_ops.privacy.query_counts import QueryCounts
from opboost_ops.privacy.sessions import Sessions
from opboost_ops.scratch.arrays import Scratch
from opboost_ops.scratch.files import whole_file

#: In the folder of cell states: which database they belong to.
_MARK = "database"

#: The states that `reuse_open_state` keeps open in this thread, by database and folders.
_OPENED: ContextVar["dict[object, PartyState] | None"] = ContextVar("opened", default=None)


class LostDatabase(ConfigError):  # noqa: N818
    """The database is gone, or empty, and there was one before."""


@dataclass(frozen=True)
class LostState:
    """A cell state that is gone.

    Attributes:
        column: The column's UUID.
        charge: The feature, or the bit of it.
        key: What was drawn under the noise key.
    """

    column: UUID
    charge: str
    key: Key


@dataclass(frozen=True)
class PartyState:
    """What a party keeps of all that it released and received.

    Attributes:
        ledger: Its releases.
        cells: What each of its cells has released.
        audit: What happened, chained.
        sessions: Which runs' sums it has taken part in.
        database: Where ledger and audit log lie.
        draws: How its cells are held back and charged.
        checkpoints: Where the state stood in each run, and the latest of other parties.
        query_counts: Label holders' queries in epochs of private alignment.
        agreements: What it has agreed to.
        forgotten: Whom it was asked to forget.
        stores: Which store each of its federations uses.
    """

    ledger: Ledger
    cells: Cells
    audit: Audit
    sessions: Sessions
    database: Database
    draws: Draws
    checkpoints: Checkpoints
    query_counts: QueryCounts
    agreements: AgreementRecords
    forgotten: Forgotten
    stores: PinnedStores

    @classmethod
    def of(cls, site: Site, database: Database) -> "PartyState":
        """A party's state in an open database, whose version is not looked at.

        Args:
            site: The party's.
            database: Its database.
        """
        key = read_secret(site.cells_key) if site.cells_key is not None else None
        cells = Cells(site.cells, database, Scratch(site.home, site.block_rows), key)
        return cls(
            Ledger(database),
            cells,
            Audit(database),
            Sessions(database),
            database,
            Draws(database, cells),
            Checkpoints(database),
            QueryCounts(database),
            AgreementRecords(database, site.party),
            Forgotten(database),
            PinnedStores(database),
        )

    def lost_states(self, *, verify: bool = False) -> list[LostState]:
        """What has drawn under a noise key whose cell state is not there any more.

        Args:
            verify: Whether the files are read, and a damaged one is lost, too.
        """
        there = self.cells.is_whole if verify else self.cells.is_there
        return [
            LostState(column, f"{account.feature}={key.bit}" if key.bit else account.feature, key)
            for column, account in self.ledger.accounts().items()
            for key in account.keys.values()
            if not has_no_cells(key.cells) and not there(column, key.cells)
        ]

    def together(self) -> AbstractContextManager[object]:
        """Add entries of ledger and audit log within it all or not at all.

        They are also forced to the disk once, which takes longer than anything else here.
        """
        return self.database.writing()


@contextmanager
def open_state(site: Site, *, fresh: bool = False) -> Iterator[PartyState]:
    """A party's state; a new one begins where there is none.

    Args:
        site: The party's.
        fresh: Whether a new database may begin where cell states say that there was one before.

    Raises:
        ConfigError: The database cannot be opened, is another party's, or another one than the
            cell states belong to; or its tables have another version.
        LostDatabase: It is gone, or empty, and there was one before.
    """
    url = site.ledger_url()
    opened = None if fresh else _OPENED.get()
    key = (site.party, url, site.cells, site.home, site.cells_key, site.block_rows)
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
        _require_one_database(site, database.identity(site.party), fresh)
        if opened is not None:
            opened[key], reused = state, True
        yield state
    finally:
        if not reused:
            database.close()


@contextmanager
def reuse_open_state() -> Iterator[None]:
    """Keep a party's state open for this thread after its first `open_state` within the block.

    The block may be a stage, or all stages of one process or task. Opening and closing take longer
    than most queries. After a restore, or a change in site.yaml, it is opened again.
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
    """What a party has agreed to; nothing where it has no database yet.

    Args:
        site: The party's.

    Raises:
        ConfigError: The database cannot be opened, or an agreement was changed.
    """
    if not has_tables(site.ledger_url()):
        return Agreements(party=site.party)
    with open_state(site) as state:
        return state.agreements.read()


def forgotten_of(site: Site) -> ForgottenPeople:
    """Whom a party has forgotten; nobody where it has no database yet.

    Args:
        site: The party's.
    """
    if not has_tables(site.ledger_url()) and not site.cells.is_dir():
        return ForgottenPeople()
    with open_state(site) as state:
        return state.forgotten.read()


def _require_one_database(site: Site, identity: str, fresh: bool) -> None:
    """Refuse cell states that belong to another database of the party."""
    mark = site.cells / _MARK
    if not site.cells.is_dir():
        return
    if not mark.is_file() or fresh:
        with whole_file(mark) as file:
            file.write(f"{identity}\n".encode())
    elif mark.read_text().strip() != identity:
        raise ConfigError(
            f"{site.party} has two databases: its cell states belong to another one than `ledger` "
            "in site.yaml names.",
            "Name the database that its releases were charged in. Nothing was charged.",
        )


def require_never_begun(site: Site) -> None:
    """Refuse to create a database where cell states say that there was one.

    Args:
        site: The party's.

    Raises:
        LostDatabase: So it is; nothing was made.
    """
    if next(site.cells.glob("*.parquet"), None) is None:
        return
    raise LostDatabase(
        f"The database of {site.party} is gone, or empty, and there was one: what it has released "
        "is not known.",
        "Nothing was created. Restore the newest backup (`opboost restore`); without one, "
        "`opboost ledger recover SITE` begins a new database.",
    )
