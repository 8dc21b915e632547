"""Checks before a party's first stage in a run: everything that would block it later, in one error.

They run before anything is drawn, charged or published. If the party refuses the plan, the refusal
is its only answer, whatever else it lacks. What cannot be decided here is left to the stage that
needs it.
"""

import logging
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from opboost_ops.errors import BudgetError, ContractError, OpBoostError, PolicyError
from opboost_ops.exchange.encryption import private_key
from opboost_ops.exchange.party_state import open_state
from opboost_ops.learning.boosters.trainer import format_of
from opboost_ops.learning.private import noise as model_noise
from opboost_ops.pipeline.party.admission import Proposal, admit
from opboost_ops.pipeline.party.local_party import LocalParty
from opboost_ops.pipeline.party.trust import require_known_store
from opboost_ops.pipeline.phases import ROUNDS, stages_of
from opboost_ops.pipeline.runner.disk_space import require_disk_space
from opboost_ops.pipeline.runner.facts import TIMINGS
from opboost_ops.pipeline.runner.publication import signer_of
from opboost_ops.pipeline.runner.run_releases import require_within
from opboost_ops.pipeline.stage import table_of

_LOG = logging.getLogger("opboost_ops")


def require_ready(party: LocalParty, proposal: Proposal, also: Sequence[OpBoostError] = ()) -> None:
    """Require that a party can do its part of a run, before it begins.

    Args:
        party: The party.
        proposal: The plan.
        also: Other problems that block the run.

    Raises:
        OpBoostError: All problems, combined by `together`.
    """
    faults, federation = list(also), proposal.plan.federation
    try:
        admit(party, proposal)
    except PolicyError as error:
        faults.append(error)
    else:
        faults += lacking(party, proposal)
    if faults:
        raise together(faults, f"run {proposal.run} of {federation.name} at {party.name}")


def lacking(party: LocalParty, proposal: Proposal) -> Iterator[OpBoostError]:
    """Yield everything that a party lacks for a run that it has admitted.

    Args:
        party: The party.
        proposal: The run's plan.
    """
    federation, purpose = proposal.plan.federation, proposal.plan.purpose
    run, home, day = proposal.run, proposal.home, proposal.day
    spec = federation.parties[party.name]
    stages = stages_of(federation, purpose, party.name)
    site = party.site

    def budget() -> None:
        # A cleared run repeats published releases, which are already charged.
        if home.has(f"{TIMINGS}/seal"):
            return
        with open_state(site) as state:
            going_on = require_within(state, party, federation, run, purpose, day)
        if going_on:
            _LOG.warning("%s", going_on)

    checks: list[Callable[[], Any]] = [
        lambda: require_known_store(site, party.store, federation.name),
        lambda: signer_of(site, federation, party.name, day, home),
        lambda: private_key(site.encryption_key, spec.encryption_key),
    ]
    if stages:
        checks.append(lambda: table_of(site, federation.name, federation.id, purpose))
    if ROUNDS in stages:
        checks.append(format_of(federation.training.trainer).require)
    private = federation.training.private
    if ROUNDS in stages and private is not None:
        checks.append(lambda: model_noise.require("training.private is declared"))
    checks += [budget, lambda: require_disk_space(party, federation, run, purpose, stages, home)]
    for check in checks:
        try:
            check()
        except OpBoostError as error:
            yield error


def _numbered(problem: str, lines: Sequence[str]) -> str:
    return "\n".join([problem, *(f"{n}. {line}" for n, line in enumerate(lines, 1))])


def together(errors: Sequence[OpBoostError], what: str) -> OpBoostError:
    """Combine errors into one: a refusal if any is one, else a budget error if any is one.

    Args:
        errors: At least one error.
        what: The run and the party, for the message.
    """
    # All parties of a machine report the same missing software.
    errors = list({str(error): error for error in errors}.values())
    if len(errors) == 1:
        return errors[0]
    problem = f"{len(errors)} problems block {what}; nothing of it has begun."
    lines = [f"{error.problem} {error.remedy}".strip() for error in errors]
    text = _numbered(problem, lines)
    remedy = "Fix all of them, then run again."
    refused = next((error for error in errors if isinstance(error, PolicyError)), None)
    if refused is not None:
        return PolicyError(text, remedy, notice=refused.notice)
    if any(isinstance(error, BudgetError) for error in errors):
        outside = [
            error.public if isinstance(error, BudgetError) else line
            for error, line in zip(errors, lines, strict=True)
        ]
        return BudgetError(text, remedy, public=f"{_numbered(problem, outside)} {remedy}")
    return ContractError(text, remedy)
