"""Answers after a failed run: what it released, what is in use, what comes next."""

from collections.abc import Mapping
from contextlib import suppress
from datetime import datetime

from opboost_ops.config.loading import site_of
from opboost_ops.config.schema import Record
from opboost_ops.errors import OpBoostError
from opboost_ops.exchange.party_state import open_state
from opboost_ops.orchestration.pages.access import has_state, parties
from opboost_ops.reports.ledger import charged as charged_by
from opboost_ops.reports.ledger import sum_of
from opboost_ops.reports.versions import Models, Version

GO_ON = (
    "Fix the cause, then clear the failed task to continue this run. If a table, a file or the "
    "form has changed, trigger a new run. No release is charged twice."
)


class Charged(Record):
    """A run's releases at one party, and their cost for a person at worst.

    Attributes:
        entries: Entries of its ledger, also those without an epsilon.
        loss: Sum of loss(R - L) over the releases that it has opened; null where it is infinite.
    """

    entries: int
    loss: float = 0


def charged(federation: str, run: str, only: str | None) -> dict[str, Charged]:
    """A run's releases at each party of this deployment whose ledger can be read.

    Args:
        federation: Name of the federation.
        run: OpBoost's id of the run.
        only: The one party that is asked for; all when absent.
    """
    charges = {}
    for party in parties() if only is None else [only]:
        # The party's own part of the page says what cannot be read.
        with suppress(OpBoostError, ValueError, OSError):
            site, _ = site_of(party)
            if federation not in site.tables or not has_state(site):
                continue
            with open_state(site) as state:
                entries = state.ledger.of_run(federation, run)
            loss = sum_of(charged_by(entry for _, entry in entries))
            charges[party] = Charged(entries=len(entries), loss=loss)
    return charges


def champion_of(federation: str) -> Version | None:
    """The version in use, where a party of this deployment keeps the federation's models.

    Args:
        federation: Name of the federation.
    """
    for party in parties():
        # The party's own part of the page says what cannot be read.
        with suppress(OpBoostError, ValueError, OSError):
            models = Models(site_of(party)[0].models, federation)
            if models.champion:
                return models.version(models.champion)
    return None


def sentences(
    charges: Mapping[str, Charged], champion: str | None, next_run: datetime | None
) -> tuple[str, ...]:
    """Say what a run released, what is in use, and when the schedule runs again.

    Args:
        charges: By party, what the run has released.
        champion: The version in use; None where there is none, or it is not known here.
        next_run: When Airflow makes the next run.
    """
    released = [
        f"{party}: {_count(charge)}, loss {charge.loss:.4g} for one person"
        for party, charge in charges.items()
        if charge.entries
    ]
    idle = [party for party, charge in charges.items() if not charge.entries]
    lines = [f"Released before it failed: {text}." for text in released]
    if idle:
        lines.append(f"Released and charged nothing: {', '.join(idle)}.")
    if champion is not None:
        lines.append(f"The champion, version {champion}, stays in use.")
    when = f"is due at {next_run:%Y-%m-%d %H:%M} UTC" if next_run else "is not scheduled"
    lines.append(f"The next run {when}.")
    return tuple(lines)


def _count(charge: Charged) -> str:
    return "1 ledger entry" if charge.entries == 1 else f"{charge.entries:,} ledger entries"
