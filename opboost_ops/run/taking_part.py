"""Whether a party takes part in a federation, or has stopped until its own people resume.

Its audit log says so, and ``stopped.json`` beside its agreements: books that went back to an older
copy know nothing of a stop, and no other party can have seen it, since nothing is published after
it. Either is enough to be stopped.
"""

import json
from pathlib import Path
from typing import cast

from opboost_ops.config.site import Site
from opboost_ops.errors import PolicyError
from opboost_ops.exchange.books import Books, open_books
from opboost_ops.privacy.whole_files import put_whole

#: Lies beside the agreements: since when, UTC, by federation.
FILE = "stopped.json"


def stopped(site: Site, books: Books, federation: str) -> str | None:
    """Since when a party has stopped taking part, UTC; None if it takes part.

    Args:
        site: The party's.
        books: Its books.
        federation: Name of the federation.
    """
    entries = books.audit.of("stopped", "resumed")
    found = [entry for entry in entries if entry.place.partition("/")[0] == federation]
    if found and found[-1].action == "stopped":
        return found[-1].at
    return _listed(site).get(federation)


def remember(site: Site, federation: str, since: str | None) -> None:
    """Note beside the books that a party has stopped, or that it takes part again.

    Args:
        site: The party's.
        federation: Name of the federation.
        since: When, UTC; None if it takes part.
    """
    listed = {name: at for name, at in _listed(site).items() if name != federation}
    if since is not None:
        listed[federation] = since
    text = json.dumps(listed, indent=1, sort_keys=True) + "\n"
    put_whole(_path(site), lambda path: path.write_text(text))


def require_taking_part(site: Site, federation: str) -> None:
    """Refuse what a party that has stopped taking part does not answer.

    Args:
        site: The party's.
        federation: Name of the federation.

    Raises:
        PolicyError: The party has stopped.
    """
    with open_books(site) as books:
        since = stopped(site, books, federation)
    if since is not None:
        raise PolicyError(
            f"{site.party} has stopped taking part in {federation}.",
            "Its own people decide when it does again: `opboost resume SITE FEDERATION`.",
        )


def _path(site: Site) -> Path:
    return site.agreement.with_name(FILE)


def _listed(site: Site) -> dict[str, str]:
    path = _path(site)
    return cast(dict[str, str], json.loads(path.read_bytes())) if path.is_file() else {}
