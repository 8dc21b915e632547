"""What lies at a site before a backup is put back, and what of it the backup does not know."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from opboost_ops.config.site import Site
from opboost_ops.errors import ConfigError, OpBoostError
from opboost_ops.exchange.books import open_books
from opboost_ops.privacy.agreements import Agreements
from opboost_ops.privacy.database import has_tables
from opboost_ops.run.taking_part import stopped

#: Most runs that a message names.
_NAMED = 10


@dataclass(frozen=True)
class Line:
    """A line of a ledger, as far as one is told from another.

    Attributes:
        artifact: Digest of the artifact, or name of the draw.
        feature: Of which feature.
        run: In which run; empty for what is of no run.
    """

    artifact: str
    feature: str
    run: str


@dataclass(frozen=True)
class Present:
    """What lies at a site.

    Attributes:
        anything: Whether there are books, in whatever state.
        readable: Whether the ledger's database could be read.
        lines: Its lines.
        forgotten: Whom it has been asked to forget; see `ForgottenPeople.entries`.
        withdrawn: Digests of agreements that are answered no more, by federation.
        stopped: Federations in which it has stopped taking part.
        stores: By federation, the identity of the store that it has pinned.
    """

    anything: bool
    readable: bool
    lines: tuple[Line, ...] = ()
    forgotten: frozenset[tuple[str, str]] = field(default_factory=frozenset)
    withdrawn: frozenset[tuple[str, str]] = field(default_factory=frozenset)
    stopped: frozenset[str] = field(default_factory=frozenset)
    stores: Mapping[str, str] = field(default_factory=dict)

    def beyond(self, backup: Iterable[Line]) -> list[Line]:
        """Lines that a backup has not."""
        known = {(line.artifact, line.feature) for line in backup}
        return [line for line in self.lines if (line.artifact, line.feature) not in known]


def look(site: Site) -> Present:
    """What lies at a site now.

    Args:
        site: The party's.

    Raises:
        ConfigError: Its database is a server's, and does not answer.
    """
    files = any(path.is_file() for root in (site.cells, site.models) for path in root.rglob("*"))
    url = site.ledger_url()
    if not has_tables(url):
        return Present(files, False)
    try:
        with open_books(site, fresh=True) as books:
            lines = tuple(Line(r.artifact, r.feature or "", r.run) for r in books.ledger.releases())
            listed = books.forgotten.read().entries
            book = books.agreements.read()
            made = book.agreements
            withdrawn = _not_in_force(book)
            stops = frozenset(a.federation for a in made if stopped(books, a.federation))
            entries = sum(1 for _ in books.audit.entries())
            stores = {name: pin.identity for name, pin in books.stores.pins().items()}
    except (OpBoostError, ValueError):
        if not url.startswith("sqlite:///"):
            raise
        return Present(True, False)
    anything = files or bool(lines) or entries > 0
    return Present(anything, True, lines, listed, withdrawn, stops, stores)


def _not_in_force(book: Agreements) -> frozenset[tuple[str, str]]:
    """Agreements that were withdrawn, or that a later one has retired and no version keeps."""
    found = set()
    for made in book.agreements:
        last, kept = book.of(made.federation)[-1], book.kept.get(made.federation, {})
        retired = made.digest != last.digest and made.number not in kept.values()
        if made.withdrawn is not None or retired:
            found.add((made.federation, made.digest))
    return frozenset(found)


def lines_in(rows: Path) -> list[Line]:
    """The ledger's lines in a backup.

    Args:
        rows: The rows of its table.
    """
    found = []
    with rows.open("rb") as file:
        for text in file:
            row = json.loads(text)
            found.append(Line(row["artifact"], row["feature"], row["event"].get("run", "")))
    return found


def require_meant(present: Present, beyond: list[Line], at: str, party: str) -> None:
    """Refuse to set books aside that nobody said may be.

    Args:
        present: What lies there.
        beyond: What of it the backup has not.
        at: The moment of the backup.
        party: Whose.

    Raises:
        ConfigError: There are some.
    """
    if not present.anything:
        return
    if not present.readable:
        told = "What lies there cannot be read."
    elif beyond:
        told = (
            f"{len(beyond)} ledger entries of it are not in the backup of {at}: {runs_of(beyond)}."
        )
    else:
        told = f"The backup of {at} has all its ledger entries."
    raise ConfigError(
        f"{party} already has a state. {told}",
        "Add --yes to move it aside and restore the backup. Nothing was changed.",
    )


def runs_of(lines: Iterable[Line]) -> str:
    """Which runs lines are of, in words."""
    runs = sorted({line.run for line in lines} - {""})
    more = f" and {len(runs) - _NAMED} more" if len(runs) > _NAMED else ""
    named = ", ".join(runs[:_NAMED])
    return f"runs {named}{more}" if runs else "of no run"
