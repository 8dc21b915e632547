"""Check that all parties can begin a run, on a machine that may read all their sites."""

from collections.abc import Mapping
from pathlib import Path
from shlex import quote
from typing import Any

from opboost_ops.config.federation import Federation, Purpose
from opboost_ops.config.loading import load_federation, load_site, site_of, use_sites
from opboost_ops.errors import BudgetError, ConfigError, Fault, OpBoostError, PolicyError
from opboost_ops.exchange.plan import Plan
from opboost_ops.exchange.store.store import open_store
from opboost_ops.pipeline.party import agreement, clock
from opboost_ops.pipeline.party.admission import Proposal, reasons_against
from opboost_ops.pipeline.party.form_values import with_form
from opboost_ops.pipeline.party.inbox import Run, note_refused
from opboost_ops.pipeline.party.local_party import LocalParty
from opboost_ops.pipeline.party.party_sites import site_files
from opboost_ops.pipeline.runner.opening import resolved
from opboost_ops.pipeline.runner.preflight import lacking, together
from opboost_ops.pipeline.stage import Home


def require_agreed(federation_file: Path, federation: Federation, *, named: bool = False) -> None:
    """Require that all parties whose site is known here have agreed to a federation file.

    Args:
        federation_file: Path of ``federation.yaml``.
        federation: Its content.
        named: True to name the new fields in the error.

    Raises:
        ConfigError: Names each party that has not agreed, with the command to agree.
    """
    faults: list[Fault] = []
    for party, file in site_files(federation_file, federation, every=False).items():
        if lacks := agreement.lacking(load_site(file), federation):
            command = f"`opboost agree {quote(str(file.parent))} {quote(str(federation_file))}`"
            problem = lacks if named else "has not agreed to it"
            faults.append(Fault(party, problem, f"read what will leave: {command}"))
    if faults:
        missing = "1 party has" if len(faults) == 1 else f"{len(faults)} parties have"
        raise ConfigError(
            f"{missing} not agreed to this version", file=federation_file.name, faults=faults
        )


def require_ready_parties(
    federation_file: str, run: str, form: Mapping[str, Any], purpose: Purpose
) -> None:
    """Require that every party can do its part of a run, before any of them begins.

    A party that refuses the plan does so, and logs it, itself when it joins; here its refusal is
    reported only beside other problems.

    Args:
        federation_file: Path of ``federation.yaml``.
        run: The run's ID.
        form: Values of the trigger form.
        purpose: The run's purpose.

    Raises:
        ConfigError: A party has not agreed to the file, or the form is invalid.
        OpBoostError: All problems by party; nothing was published or charged.
    """
    file = Path(federation_file)
    federation = load_federation(file)
    if purpose == "train":
        require_agreed(file, federation)
        with_form(federation, form)
    errors: list[OpBoostError] = []
    refused: list[OpBoostError] = []
    with use_sites(site_files(file, federation)):
        owner, plan = resolved(file, run, form, purpose, errors)
        if isinstance(plan, str):
            return  # The party that opens the run reports it.
        for name in plan.federation.parties:
            site, policy = site_of(name)
            party = LocalParty(name, site, policy, open_store(site.store))
            reasons, faults = _of_party(party, plan, run)
            if reasons:
                text = f"{name} refuses it: {'; '.join(reasons)}."
                refused.append(PolicyError(text, "`opboost agree` shows what is new."))
            for error in faults:
                if isinstance(error, BudgetError):
                    this = Run(plan.federation.name, run, owner.name)
                    note_refused(site, this, "preflight", error)
                errors.append(error)
    if errors:
        raise together([*refused, *errors], f"run {run} of {plan.federation.name}")


def _of_party(party: LocalParty, plan: Plan, run: str) -> tuple[list[str], list[OpBoostError]]:
    federation: Federation = plan.federation
    home = Home(party.site.home / federation.name / run)
    day = plan.day or clock.today()
    if reasons := reasons_against(party, plan, day):
        return reasons, []
    return [], list(lacking(party, Proposal(plan, run, plan.agreement, home, day)))
