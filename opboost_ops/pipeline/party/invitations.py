"""Runs that another Airflow has opened: find them, join them, and follow what has arrived.

Everything is read from the store. A signed plan in the store opens a run; its age comes from the
store's clock, which no signature covers. Anyone who writes to the store can therefore make a party
join a run that is over, where it waits in vain, just as they can withhold a plan.
"""

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from opboost_ops.config.federation import Purpose
from opboost_ops.config.loading import site_of
from opboost_ops.errors import BudgetError, ConfigError, OpBoostError, PolicyError
from opboost_ops.exchange.manifest import reference
from opboost_ops.exchange.plan import Plan
from opboost_ops.exchange.rejection import Rejected
from opboost_ops.exchange.store.store import open_store
from opboost_ops.learning.registry.registry import Registry
from opboost_ops.pipeline.party import clock
from opboost_ops.pipeline.party.admission import Proposal, admit
from opboost_ops.pipeline.party.inbox import (
    Run,
    accept_plan,
    accepting,
    has_part,
    home_of,
    keep,
    note_received,
    note_refused,
    pinned_key,
)
from opboost_ops.pipeline.party.local_party import LocalParty
from opboost_ops.pipeline.phases import stages_of
from opboost_ops.pipeline.stage import Home

#: File in the federation's home with the times at which known plans were written.
_WRITTEN = "plans_written"


@dataclass(frozen=True)
class Opened:
    """A run that the label holder has opened.

    Attributes:
        run: Its ID.
        at: Time at which its plan was written, Unix seconds by the store's clock.
        plan: Its plan; None if the party refuses it.
        refused: The refusal.
    """

    run: str
    at: float
    plan: Plan | None = None
    refused: Rejected | PolicyError | None = None


def to_join(party: str, federation: str, label_holder: str, patience: float) -> list[Opened]:
    """Return the runs that a party should join: the newest per purpose that it has not joined.

    The label holder runs one at a time per purpose, so all older runs are over.

    Args:
        party: The party that may join.
        federation: Name of the federation.
        label_holder: The party that opens the runs.
        patience: Age in seconds from which a run counts as over.

    Returns:
        Runs, oldest first.

    Raises:
        PolicyError: The party's policy does not name the label holder, or the only plan is one
            that the party has not agreed to.
        Rejected: The only plan is one that the party rejects.
    """
    me = _local_party(party)
    refusals: list[Rejected | PolicyError] = []
    newest: dict[Purpose, Opened] = {}
    for opened in _opened(me, federation, label_holder, patience):
        if opened.plan is not None:
            newest[opened.plan.purpose] = opened
        elif opened.refused is not None and not has_part(me.site, federation, opened.run):
            refusals.append(opened.refused)
    joinable = [
        opened
        for opened in newest.values()
        if not has_part(me.site, federation, opened.run) and _ready(me, opened.plan)
    ]
    if not joinable and refusals:
        raise refusals[-1]
    return sorted(joinable, key=_age)


def join(
    party: str, run: Run, purpose: Purpose, also: Sequence[OpBoostError] = ()
) -> dict[str, Any]:
    """Join a run: accept its plan and record it in the party's home.

    Args:
        party: The party that joins.
        run: The run.
        purpose: The purpose that the run must have.
        also: Other problems that block the run.

    Returns:
        A public summary.

    Raises:
        ArtifactError: The store has no such run.
        ConfigError: The run has another purpose, or the party has no stage in it.
        Rejected: The party rejects its plan.
        PolicyError: The party has not agreed to it.
    """
    me = _local_party(party)
    try:
        acceptance, digest = accept_plan(me, run, also=also)
    except (Rejected, BudgetError) as error:
        note_refused(me.site, run, "join_run", error)
        raise
    plan = acceptance.plan
    if plan.purpose != purpose or not stages_of(plan.federation, purpose, party):
        raise ConfigError(
            f"Run {run.run} of {run.federation} is a {plan.purpose} run, and {party} was to take "
            f"part in a {purpose} run.",
            f"Trigger {run.federation}_{plan.purpose} for it.",
        )
    home = home_of(me.site, run.federation, run.run)
    if not has_part(me.site, run.federation, run.run):
        note_received(me.site, acceptance, run, set())
        keep(acceptance, home)
    return {"run": run.run, "plan": digest[:16]}


def missing(party: str, run: Run, wanted: Sequence[str]) -> list[str]:
    """Return the places that a party needs and that are not published yet.

    Args:
        party: The party that waits.
        run: The run.
        wanted: Places in the run, as ``<kind>/<party>``.
    """
    store = _local_party(party).store
    places = {place: reference(run.federation, run.run, *place.split("/")) for place in wanted}
    return [place for place, full in places.items() if store.written(full) is None]


def newer(party: str, run: Run, purpose: Purpose, patience: float) -> str | None:
    """Return the ID of a newer run that replaces the one a party waits in; None if there is none.

    Runs that the party has joined do not count: then this run was cleared on purpose.

    Args:
        party: The party that waits.
        run: The run that it waits in.
        purpose: The run's purpose.
        patience: Age in seconds from which a run counts as over.
    """
    me = _local_party(party)
    mine = me.store.written(reference(run.federation, run.run, "plan", run.label_holder))
    for opened in _opened(me, run.federation, run.label_holder, patience):
        later = mine is not None and _age(opened) > (mine, run.run)
        same = opened.plan is not None and opened.plan.purpose == purpose
        if later and same and not has_part(me.site, run.federation, opened.run):
            return opened.run
    return None


def _opened(
    me: LocalParty, federation: str, label_holder: str, patience: float
) -> Iterator[Opened]:
    """Yield the runs that may still be active, oldest first."""
    pinned_key(me, label_holder)  # Raises for an unpinned label holder even if there is no plan.
    today = clock.today()
    for run, at in _plans(me, federation, label_holder):
        if time.time() - at > patience:
            continue
        place = reference(federation, run, "plan", label_holder)
        acceptance = accepting(me, federation, run, label_holder)
        try:
            files = me.store.get(place, acceptance.admit("plan", label_holder))
            if files is None:
                continue  # Removed since the listing.
            digest = acceptance.accept("plan", label_holder, files, today).digest
            plan = acceptance.plan
            if me.name not in plan.federation.parties or _has_stages(me, plan):
                home = Home(me.site.home / federation / run)
                admit(me, Proposal(plan, run, digest, home, acceptance.day(today)))
        except (Rejected, PolicyError) as error:
            yield Opened(run, at, refused=error)
        else:
            yield Opened(run, at, acceptance.plan)


def _plans(me: LocalParty, federation: str, label_holder: str) -> list[tuple[str, float]]:
    """Return all runs with a plan and the time it was written, oldest first.

    The time never changes, so each plan's is requested once, however many runs the store keeps.
    """
    home = Home(me.site.home / federation)
    stored = home.json(_WRITTEN) if home.has(_WRITTEN) else {}
    written: dict[str, float] = {}
    for run in me.store.runs(federation):
        at = stored.get(run)
        if at is None:
            at = me.store.written(reference(federation, run, "plan", label_holder))
        if at is not None:
            written[run] = float(at)
    if written != stored:
        home.write_json(_WRITTEN, written)
    return sorted(written.items(), key=lambda item: (item[1], item[0]))


def _ready(me: LocalParty, plan: Plan | None) -> bool:
    assert plan is not None
    federation = plan.federation
    if not _has_stages(me, plan):
        return False
    if federation.learning == "horizontal" and plan.purpose == "score":
        # The active party may have registered the common model before this one.
        return plan.model in Registry(me.site.models, federation.name).versions()
    return True


def _has_stages(me: LocalParty, plan: Plan) -> bool:
    return bool(stages_of(plan.federation, plan.purpose, me.name))


def _age(opened: Opened) -> tuple[float, str]:
    return (opened.at, opened.run)


def _local_party(party: str) -> LocalParty:
    site, policy = site_of(party)
    return LocalParty(party, site, policy, open_store(site.store))
