"""Agreeing and withdrawing: what a party answers, numbered, dated, with a line in its audit log."""

import fcntl
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Literal

from opboost_ops.config.agreement import digest_of, document, fields
from opboost_ops.config.declared_map import first_declared
from opboost_ops.config.federation import Federation
from opboost_ops.config.site import Site
from opboost_ops.errors import ConfigError
from opboost_ops.exchange.books import open_books
from opboost_ops.exchange.encryption import key_name
from opboost_ops.mechanisms import noise
from opboost_ops.run import clock
from opboost_ops.run.agreement_file import Agreed, Agreements, load, replace, sealed
from opboost_ops.run.known_keys import require_honest

#: Beside ``site.yaml``: its party is one of a demonstration or an experiment.
MADE_UP = ".made-up"

#: Which keys an agreement has revoked, in the log's words.
_REVOKED = re.compile(r"revoked ([0-9a-f ]+),")

#: Most fields that a line names; `opboost agree` shows all.
_NAMED = 20


def agree(site: Site, federation: Federation) -> Agreed:
    """Pin a federation as it is declared; what is agreed already is not agreed again.

    Args:
        site: The party's.
        federation: As declared.

    Returns:
        The agreement that stands now.

    Raises:
        ConfigError: The party is not in the federation, its file was changed, or is gone; or the
            federation names keys that it may not.
    """
    require_member(site, federation)
    content = document(federation)
    digest = digest_of(content)
    with changing(site) as book:
        newest = book.newest(federation.name)
        if newest is not None and newest.digest == digest:
            return newest
        _require_not_lost(site, book)
        require_honest(book, federation, clock.today(), _revoked(site, federation.name))
        made = Agreed(
            number=_highest(site, book) + 1,
            federation=federation.name,
            at=_now(),
            digest=digest,
            content=content,
        )
        first = {
            str(feature.uuid): first_declared(feature, federation.id)
            for feature in federation.parties[site.party].features.values()
            if feature.mechanism is not None
        }
        changed = book.model_copy(
            update={
                "agreements": (*book.agreements, made),
                "columns": {**first, **book.columns},
            }
        )
        secret = noise.fingerprint(site.noise_secret())
        gone = [key_name(k) for spec in federation.parties.values() for k in spec.revoked_keys]
        revoked = f"revoked {' '.join(gone)}, " if gone else ""
        detail = f"number {made.number}, {revoked}noise secret {secret}"
        _write(site, changed, "agreed", made, federation.label_holder, detail)
    return made


def lacking(site: Site, federation: Federation) -> str:
    """What a party has not agreed to of a federation as it is declared; empty if nothing.

    Args:
        site: The party's.
        federation: As declared.

    Raises:
        ConfigError: The file was changed by hand.
    """
    newest = load(site).newest(federation.name)
    if newest is None:
        return f"has not agreed to {federation.name}"
    new = fields(newest.content, federation)
    more = f", and {len(new) - _NAMED} more" if len(new) > _NAMED else ""
    return f"has not agreed to what is new in {', '.join(new[:_NAMED])}{more}" if new else ""


def withdraw(site: Site, number: int) -> tuple[Agreed, ...]:
    """Answer nothing any more under an agreement, and under others of the same content.

    Args:
        site: The party's.
        number: The agreement's.

    Returns:
        What was withdrawn.

    Raises:
        ConfigError: There is no such agreement, or it was withdrawn before.
    """
    with changing(site) as book:
        named = next((a for a in book.agreements if a.number == number), None)
        if named is None or named.withdrawn is not None:
            standing = [str(a.number) for a in book.agreements if a.withdrawn is None]
            raise ConfigError(
                f"{site.party} has no agreement {number} that stands.",
                f"These do: {', '.join(standing)}." if standing else "None does.",
            )
        at = _now()
        gone = {
            a.number
            for a in book.of(named.federation)
            if a.digest == named.digest and a.withdrawn is None
        }
        agreements = tuple(
            a.model_copy(update={"withdrawn": at}) if a.number in gone else a
            for a in book.agreements
        )
        changed = book.model_copy(update={"agreements": agreements})
        numbers = ", ".join(str(n) for n in sorted(gone))
        _write(site, changed, "withdrawn", named, site.party, f"number {numbers}")
    return tuple(a for a in agreements if a.number in gone)


def require_member(site: Site, federation: Federation) -> None:
    """Refuse a federation in which the site's party has no part.

    Raises:
        ConfigError: It has none.
    """
    if site.party not in federation.parties:
        raise ConfigError(
            f"{site.party} is no party of {federation.name}.",
            f"Its parties are {', '.join(federation.parties)}.",
        )


def _highest(site: Site, book: Agreements) -> int:
    """The highest number that was ever given, also where an older file was put back."""
    with open_books(site) as books:
        places = [entry.place for entry in books.audit.of("agreed")]
    told = [int(place.rpartition("/")[2]) for place in places]
    return max([*told, *(a.number for a in book.agreements)], default=0)


def _revoked(site: Site, federation: str) -> frozenset[str]:
    """Names of the keys that were ever revoked, also where an older file was put back."""
    with open_books(site) as books:
        entries = books.audit.of("agreed")
    found = [
        _REVOKED.search(e.detail) for e in entries if e.place.startswith(f"{federation}/agreement/")
    ]
    return frozenset(name for match in found if match for name in match[1].split())


@contextmanager
def changing(site: Site) -> Iterator[Agreements]:
    """The file as it is, while nobody else changes it.

    Args:
        site: The party's.
    """
    lock = site.agreement.with_name(f".{site.agreement.name}.lock")
    with open(os.open(lock, os.O_RDWR | os.O_CREAT, 0o600), "wb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield load(site)


def _write(
    site: Site,
    book: Agreements,
    action: Literal["agreed", "withdrawn"],
    agreement: Agreed,
    party: str,
    detail: str,
) -> None:
    place = f"{agreement.federation}/agreement/{agreement.number}"
    with open_books(site) as books, books.together():
        books.audit.add(action, place, party, agreement.digest, detail)
        replace(site.agreement, sealed(book, site.noise_secret()))


def _require_not_lost(site: Site, book: Agreements) -> None:
    """Refuse to begin anew under the same noise: what columns first declared would be forgotten."""
    if book.agreements:
        return
    mark = f"noise secret {noise.fingerprint(site.noise_secret())}"
    with open_books(site) as books:
        lost = any(
            entry.action == "agreed" and entry.detail.endswith(mark)
            for _, entry, _ in books.audit.entries()
        )
    if lost:
        raise ConfigError(
            f"{site.agreement.name} of {site.party} is gone, and its audit log says that there was "
            "one: what its columns first declared is in it.",
            "Restore it from a copy. Without one, `opboost keys rotate` begins anew, with a fresh "
            "draw of every cell.",
        )


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
