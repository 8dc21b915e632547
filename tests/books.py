"""A party's books in a test's workspace."""

from contextlib import AbstractContextManager

from opboost_ops.config.loading import load_site
from opboost_ops.config.site import Site
from opboost_ops.exchange.books import Books, open_books
from tests.federation import Workspace


def books_of(workspace: Workspace, party: str) -> AbstractContextManager[Books]:
    """Ledger, cells and audit log of a party."""
    return open_books(load_site(workspace.folder / party / "site.yaml"))


def forget(site: Site, person: str | int) -> None:
    """Put a person on a party's list of the forgotten."""
    with open_books(site) as books:
        books.forgotten.add(site.noise_secret(), person)
