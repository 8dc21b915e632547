"""A party's books: ledger, cell states and audit log, opened together."""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass

from opboost_ops.config.site import Site
from opboost_ops.exchange.audit import Audit
from opboost_ops.privacy.cells import Cells
from opboost_ops.privacy.database import Database
from opboost_ops.privacy.draws import Draws
from opboost_ops.privacy.ledger import Ledger
from opboost_ops.privacy.migrations import upgrade
from opboost_ops.privacy.sessions import Sessions


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
    """

    ledger: Ledger
    cells: Cells
    audit: Audit
    sessions: Sessions
    database: Database
    draws: Draws

    def together(self) -> AbstractContextManager[object]:
        """Lines of ledger and audit log that are added within it come all or not at all.

        They are also forced to the disk once, which takes longer than anything else here.
        """
        return self.database.writing()


@contextmanager
def open_books(site: Site) -> Iterator[Books]:
    """A party's books; those of a former version are brought up to this one, with a backup beside.

    Args:
        site: The party's.

    Raises:
        ConfigError: The database cannot be opened, or no backup of a former one be written.
    """
    database = Database(site.ledger_url())
    try:
        cells = Cells(site.cells)
        upgrade(database, cells)
        yield Books(
            Ledger(database),
            cells,
            Audit(database),
            Sessions(database),
            database,
            Draws(database, cells, site.forgotten),
        )
    finally:
        database.close()
