"""A site's state before a restore, and its ledger entries that are not in the backup."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from opboost_ops.config.site import Site
from opboost_ops.errors import ConfigError, OpBoostError
from opboost_ops.exchange.party_state import PartyState, open_state
from opboost_ops.pipeline.party.agreement import stopped
from opboost_ops.privacy.consent.agreements import Agreements
from opboost_ops.privacy.ledger.checkpoints import Checkpoint
from opboost_ops.privacy.ledger.database import has_tables
from opboost_ops.privacy.ledger.entries import LedgerEntry

#: Maximum number of runs that a message names.
_MAX_NAMED = 10


@dataclass(frozen=True)
class Present:
    """The present state of a site.

    Attributes:
        anything: Whether there is a state, readable or damaged.
        readable: Whether the ledger's database could be read.
        entries: Its ledger entries.
        forgotten: The people that it was asked to forget; see `ForgottenPeople.people`.
        withdrawn: Federations and digests of agreements that are no longer in force.
        stopped: Federations in which it has stopped taking part.
        checkpoints: Its last checkpoints, with federation and receiver; also those of states that
            earlier restores have moved aside.
        stores: Identity of the pinned store, by federation.
    """

    anything: bool
    readable: bool
    entries: Sequence[LedgerEntry] = ()
    forgotten: frozenset[str] = frozenset()
    withdrawn: frozenset[tuple[str, str]] = frozenset()
    stopped: frozenset[str] = frozenset()
    checkpoints: Sequence[tuple[str, str, Checkpoint]] = ()
    stores: Mapping[str, str] = field(default_factory=dict)


def present_at(site: Site) -> Present:
    """Read a site's present state, which may change until its database is locked.

    Args:
        site: The party's site.

    Raises:
        ConfigError: Its database server does not respond.
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
    """Return True if there are pins or models.

    Args:
        site: The party's site.
    """
    return any(path.is_file() for root in (site.pins, site.models) for path in root.rglob("*"))


def present_of(state: PartyState, *, files: bool) -> Present:
    """Read a site's present state from its open database.

    Args:
        state: The party's state.
        files: Whether there are pins or models.
    """
    agreements = state.agreements.read()
    agreed, entries = agreements.agreements, state.ledger.entries()
    audit_entries, _ = state.audit.head()
    return Present(
        anything=files or bool(entries) or audit_entries > 0,
        readable=True,
        entries=entries,
        forgotten=state.forgotten.read().people,
        withdrawn=_not_in_force(agreements),
        stopped=frozenset(a.federation for a in agreed if stopped(state, a.federation)),
        checkpoints=[*state.checkpoints.latest(), *state.checkpoints.returned(agreements.party)],
        stores={name: pin.identity for name, pin in state.stores.pins().items()},
    )


def _not_in_force(agreements: Agreements) -> frozenset[tuple[str, str]]:
    """Return agreements that were withdrawn, or replaced and are not kept for a version."""
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
    """Return the present ledger entries that are not in a backup.

    Args:
        present: The present state.
        rows: File with the rows of the ledger's table in the backup.
    """
    with rows.open("rb") as file:
        keys = {(row["artifact"], row["feature"]) for row in map(json.loads, file)}
    return [entry for entry in present.entries if (entry.artifact, entry.feature or "") not in keys]


def require_confirmation(present: Present, beyond: list[LedgerEntry], at: str, party: str) -> None:
    """Refuse to move a state aside without confirmation.

    Args:
        present: The present state.
        beyond: Its ledger entries that are not in the backup.
        at: Time of the backup.
        party: The party.

    Raises:
        ConfigError: There is a state.
    """
    if not present.anything:
        return
    if not present.readable:
        detail = "It cannot be read."
    elif beyond:
        detail = (
            f"{len(beyond)} of its ledger entries are not in the backup of {at}: {runs_of(beyond)}."
        )
    else:
        detail = f"The backup of {at} has all of its ledger entries."
    raise ConfigError(
        f"{party} already has a state. {detail}",
        "Add --yes to move it aside and restore the backup. Nothing was changed.",
    )


def runs_of(entries: Iterable[LedgerEntry]) -> str:
    """Return a text that names the runs of ledger entries."""
    runs = sorted({entry.run for entry in entries} - {""})
    more = f" and {len(runs) - _MAX_NAMED} more" if len(runs) > _MAX_NAMED else ""
    named = ", ".join(runs[:_MAX_NAMED])
    return f"runs {named}{more}" if runs else "of no run"
