"""Whether a party takes part in a federation, or has stopped until its own people resume."""

from opboost_ops.config.site import Site
from opboost_ops.errors import PolicyError
from opboost_ops.exchange.books import Books, open_books


def stopped(books: Books, federation: str) -> str | None:
    """Since when a party has stopped taking part, UTC, by its audit log; None if it takes part.

    Args:
        books: The party's.
        federation: Name of the federation.
    """
    entries = books.audit.of("stopped", "resumed")
    found = [entry for entry in entries if entry.place.partition("/")[0] == federation]
    return found[-1].at if found and found[-1].action == "stopped" else None


def require_taking_part(site: Site, federation: str) -> None:
    """Refuse what a party that has stopped taking part does not answer.

    Args:
        site: The party's.
        federation: Name of the federation.

    Raises:
        PolicyError: The party has stopped.
    """
    with open_books(site) as books:
        since = stopped(books, federation)
    if since is not None:
        raise PolicyError(
            f"{site.party} has stopped taking part in {federation}.",
            "Its own people decide when it does again: `opboost resume SITE FEDERATION`.",
        )
