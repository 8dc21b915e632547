"""What a party's books lack: the database held against all that lies elsewhere.

Whatever a party releases leaves traces outside its database: the cell states, the homes of its
runs, its own signed artifacts in the store, its agreements. An older copy of one of them, put back,
disagrees with the others, and each place where it does is a gap; `comparisons` finds them.
"""

from opboost_ops.config.site import Site
from opboost_ops.exchange.books import LostBooks, open_books
from opboost_ops.exchange.store import open_store
from opboost_ops.run import comparisons
from opboost_ops.run.comparisons import RECOVER, Gap, Known
from opboost_ops.run.evidence import home_runs, in_store

__all__ = ["Gap", "check"]


def check(site: Site) -> list[Gap]:
    """Hold a party's books against everything that lies elsewhere; nothing is changed.

    It reads all lines, all runs at home, and the manifests of all its artifacts in the store.

    Args:
        site: The party's.

    Returns:
        Every gap; empty if the books are whole.

    Raises:
        ConfigError: The database or the store cannot be opened.
        ConnectionError: The store cannot be reached.
    """
    try:
        with open_books(site) as books:
            known, runs = Known.read(books), list(home_runs(site))
            federations = {run.federation for run in runs} | known.federations | set(site.tables)
            store = open_store(site.store)
            there = [one for name in sorted(federations) for one in in_store(site, store, name)]
            return [
                *comparisons.not_charged(known, runs, there),
                *comparisons.against_cells(known, books.cells),
                *comparisons.against_homes(known, runs),
                *comparisons.gone_from_store(known, there),
                *comparisons.against_sessions(books, there),
                *comparisons.against_heads(books, runs, there, site.party),
                *comparisons.against_agreement(known.entries, site),
                *comparisons.of_the_log(known),
                *comparisons.of_the_forgotten(site, books),
                *comparisons.not_completed(books),
            ]
    except LostBooks as error:
        what = error.problem
    return [Gap("ledger", "all of it: the database is gone, or empty", what, RECOVER)]
