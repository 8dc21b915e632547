"""A party's books: ledger, cell states and audit log, opened together."""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass

from opboost_ops.config.site import Site
from opboost_ops.errors import ConfigError
from opboost_ops.exchange.audit import Audit
from opboost_ops.exchange.order import MEMORY
from opboost_ops.privacy.asked import Asked
from opboost_ops.privacy.cells import Cells
from opboost_ops.privacy.database import Database, has_tables
from opboost_ops.privacy.draws import Draws
from opboost_ops.privacy.heads import Heads
from opboost_ops.privacy.ledger import Ledger
from opboost_ops.privacy.migrations import upgrade
from opboost_ops.privacy.sessions import Sessions
from opboost_ops.scratch.arrays import Scratch


class LostBooks(ConfigError):  # noqa: N818
    """The database is gone, or empty, and there was one before."""


@dataclass(frozen=True)
class Books:
    """What a party keeps of all that it released and received.

    Attributes:
        ledger: Its releases.
        cells: What each of its cells has released.
        audit: What happened, chained.
        sessions: Which runs' sums it has taken part in.
        database: Where ledger and audit log lie.
        draws: How its cells are held back and charged.
        heads: Where they stood when it took part in runs, and where others' did.
        asked: What label holders asked it about in epochs of private alignment.
    """

    ledger: Ledger
    cells: Cells
    audit: Audit
    sessions: Sessions
    database: Database
    draws: Draws
    heads: Heads
    asked: Asked

    def together(self) -> AbstractContextManager[object]:
        """Lines of ledger and audit log that are added within it come all or not at all.

        They are also forced to the disk once, which takes longer than anything else here.
        """
        return self.database.writing()


@contextmanager
def open_books(site: Site, *, anew: bool = False) -> Iterator[Books]:
    """A party's books; those of a former version are brought up to this one, with a backup beside.

    Args:
        site: The party's.
        anew: Whether they may begin where something else says that there were books before.

    Raises:
        ConfigError: The database cannot be opened, or no backup of a former one be written.
        LostBooks: It is gone, or empty, and there was one before.
    """
    url = site.ledger_url()
    if not anew and not has_tables(url):
        require_never_begun(site)
    database = Database(url)
    try:
        if not anew and database.is_empty():
            require_never_begun(site)
        cells = Cells(site.cells, Scratch(site.home, site.block_rows))
        upgrade(database, cells)
        yield Books(
            Ledger(database),
            cells,
            Audit(database),
            Sessions(database),
            database,
            Draws(database, cells, site.forgotten),
            Heads(database),
            Asked(database),
        )
    finally:
        database.close()


def require_never_begun(site: Site) -> None:
    """Refuse to make books anew where something else says that there were some.

    Args:
        site: The party's.

    Raises:
        LostBooks: So it is; nothing was made.
    """
    traces = leaves_traces(site)
    if traces:
        raise LostBooks(
            f"The ledger of {site.party} is gone, or empty, and {traces} say that there was one: "
            "what it has released is not known.",
            "Nothing was made anew. Put the newest copy back, or rebuild it with `opboost ledger "
            "recover SITE`.",
        )


def leaves_traces(site: Site) -> str:
    """What beside the database says that there were books, in words; empty if nothing does.

    Args:
        site: The party's.
    """
    if next(site.cells.glob("*.parquet"), None) is not None:
        return f"the states in {site.cells.name}/"
    if site.agreement.is_file():
        return f"the agreements in {site.agreement.name}"
    if next(site.home.glob(f"*/*/{MEMORY}.json"), None) is not None:
        return f"the runs in {site.home.name}/"
    return ""
