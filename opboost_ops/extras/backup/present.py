"""A site before a backup is put back, and entries of its ledger that the backup lacks."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from opboost_ops.config.site import Site
from opboost_ops.errors import ConfigError, OpBoostError
from opboost_ops.exchange.party_state import PartyState, open_state
from opboost_ops.pipeline.party.agreement import stopped
from opboost_ops.privacy.consent.agreements import Agreements
from opboost_ops.privacy.ledger.database import has_tables
from opboost_ops.privacy.ledger.entries import LedgerEntry

#: Most runs that a message names.
_NAMED = 10


@dataclass(frozen=True)
class Present:
    """The state of a site.

    Attributes:
        anything: Whether there is a state, whole or damaged.
        readable: Whether the ledger's database could be read.
        entries: Its entries.
        forgotten: Whom it has been asked to forget; see `ForgottenPeople.people`.
        withdrawn: Digests of agreements that are no longer answered, by federation.
        stopped: Federations in which it has stopped taking part.
        stores: By federation, the identity of the store that it has pinned.
    """

    anything: bool
    readable: bool
    entries: Sequence[LedgerEntry] = ()
    forgotten: frozenset[str] = frozenset()
    withdrawn: frozenset[tuple[str, str]] = frozenset()
    stopped: frozenset[str] = frozenset()
    stores: Mapping[str, str] = field(default_factory=dict)


def present_at(site: Site) -> Present:
    """Look at a site's present state, which others may change until its database is locked.

    Args:
        site: The party's.

    Raises:
        ConfigError: Its database is a server's, and does not answer.
    """
    files = has_files(site)
    url = site.ledger_url()
    if not has_tables(url):
        return Present(files, False)
    try:
        with open_state(site, fresh=True) as state:
            return present_of(state, files=files)
    except (OpBoostError, ValueError):
        if not url.startswith("sqlite:///"):
            raise
        return Present(True, False)


def has_files(site: Site) -> bool:
    """True if there are pins or models.

    Args:
        site: The party's.
    """
    return any(path.is_file() for root in (site.pins, site.models) for path in root.rglob("*"))


def present_of(state: PartyState, *, files: bool) -> Present:
    """A site as its party's database describes it.

    Args:
        state: The party's.
        files: True if there are pins or models.
    """
    agreements = state.agreements.read()
    agreed, entries = agreements.agreements, state.ledger.entries()
    happened, _ = state.audit.head()
    return Present(
        anything=files or bool(entries) or happened > 0,
        readable=True,
        entries=entries,
        forgotten=state.forgotten.read().people,
        withdrawn=_not_in_force(agreements),
        stopped=frozenset(a.federation for a in agreed if stopped(state, a.federation)),
        stores={name: pin.identity for name, pin in state.stores.pins().items()},
    )


def _not_in_force(agreements: Agreements) -> frozenset[tuple[str, str]]:
    """Agreements that were withdrawn, or that a later one has retired and no version keeps."""
    inactive = set()
    for agreement in agreements.agreements:
        last, by_version = (
            agreements.of(agreement.federation)[-1],
            agreements.kept.get(agreement.federation, {}),
        )
        retired = agreement.digest != last.digest and agreement.number not in by_version.values()
        if agreement.withdrawn is not None or retired:
            inactive.add((agreement.federation, agreement.digest))
    return frozenset(inactive)


def not_in_backup(present: Present, rows: Path) -> list[LedgerEntry]:
    """Entries of the ledger that is there which a backup has not.

    Args:
        present: What lies there.
        rows: The rows of the ledger's table in the backup.
    """
    with rows.open("rb") as file:
        keys = {(row["artifact"], row["feature"]) for row in map(json.loads, file)}
    return [entry for entry in present.entries if (entry.artifact, entry.feature or "") not in keys]


def require_meant(present: Present, beyond: list[LedgerEntry], at: str, party: str) -> None:
    """Refuse to move a state aside unless somebody said so.

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
        detail = "What lies there cannot be read."
    elif beyond:
        detail = (
            f"{len(beyond)} ledger entries of it are not in the backup of {at}: {runs_of(beyond)}."
        )
    else:
        detail = f"The backup of {at} has all its ledger entries."
    raise ConfigError(
        f"{party} already has a state. {detail}",
        "Add --yes to move it aside and restore the backup. Nothing was changed.",
    )


def runs_of(entries: Iterable[LedgerEntry]) -> str:
    """Which runs entries are of, in words."""
    runs = sorted({entry.run for entry in entries} - {""})
    more = f" and {len(runs) - _NAMED} more" if len(runs) > _NAMED else ""
    named = ", ".join(runs[:_NAMED])
    return f"runs {named}{more}" if runs else "of no run"
