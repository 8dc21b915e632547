"""What is in the way of a run at any of its parties, for whoever may read all their sites."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from opboost_ops.config.federation import Federation, Purpose
from opboost_ops.config.loading import site_of, sites_known
from opboost_ops.errors import BudgetError, OpBoostError, PolicyError
from opboost_ops.exchange.plan import Plan
from opboost_ops.exchange.store import open_store
from opboost_ops.run import clock
from opboost_ops.run.admission import reasons_against
from opboost_ops.run.inbox import Run, note_refused
from opboost_ops.run.opening import resolved
from opboost_ops.run.preflight import lacking, together
from opboost_ops.run.publication import Publisher
from opboost_ops.stages.stage import Home


def require_all_ready(
    federation_file: Path,
    sites: Mapping[str, Path],
    run: str,
    form: Mapping[str, Any],
    purpose: Purpose,
) -> None:
    """Refuse a run that a party could not do its part of, before any of them begins.

    A plan that a party refuses is refused, and noted, by the party itself once it is asked; here
    that is said beside other faults alone.

    Args:
        federation_file: ``federation.yaml``.
        sites: Where each party's ``site.yaml`` is.
        run: The run's id.
        form: As in the trigger form.
        purpose: What the run is for.

    Raises:
        OpBoostError: All that is in the way, by party; nothing was published or charged.
    """
    found: list[OpBoostError] = []
    refused: list[OpBoostError] = []
    with sites_known(sites):
        owner, made = resolved(federation_file, run, form, purpose, found)
        if isinstance(made, str):
            return  # Whoever opens the run says so.
        for name in made.federation.parties:
            site, policy = site_of(name)
            party = Publisher(name, site, policy, open_store(site.store))
            reasons, faults = _of_party(party, made, run)
            if reasons:
                text = f"{name} refuses it: {'; '.join(reasons)}."
                refused.append(PolicyError(text, "`opboost agree` shows what is new."))
            for error in faults:
                if isinstance(error, BudgetError):
                    this = Run(made.federation.name, run, owner.name)
                    note_refused(site, this, "preflight", error)
                found.append(error)
    if found:
        raise together([*refused, *found], f"run {run} of {made.federation.name}")


def _of_party(party: Publisher, plan: Plan, run: str) -> tuple[list[str], list[OpBoostError]]:
    federation: Federation = plan.federation
    home = Home(party.site.home / federation.name / run)
    day = plan.day or clock.today()
    if reasons := reasons_against(party, plan, day):
        return reasons, []
    return [], list(lacking(party, federation, plan.purpose, run, home, day))
