"""Before a party's first work in a run: all that would stop it later, told at once.

Nothing is drawn, charged or published before. A plan that the party refuses is told nothing but
that, whatever else the party lacks: nobody has agreed to answer it. What cannot be decided here
refuses nothing; it is decided where it always was, by the stage that needs it.
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
from opboost_ops.pipeline.party.trust import require_known_store
from opboost_ops.pipeline.phases import ROUNDS, stages_of
from opboost_ops.pipeline.runner.disk_space import require_disk_space
from opboost_ops.pipeline.runner.drawing import require_within
from opboost_ops.pipeline.runner.facts import TIMINGS
from opboost_ops.pipeline.runner.publication import Publisher, signer_of
from opboost_ops.pipeline.stage import table_of

_LOG = logging.getLogger("opboost_ops")


def require_ready(party: Publisher, proposal: Proposal, also: Sequence[OpBoostError] = ()) -> None:
    """Refuse a run that the party could not do its part of, before it begins it.

    Args:
        party: Who is asked to take part.
        proposal: The plan.
        also: What is in the way besides.

    Raises:
        OpBoostError: All of it, see `together`.
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


def lacking(party: Publisher, proposal: Proposal) -> Iterator[OpBoostError]:
    """All that a party lacks for a run that it has admitted.

    Args:
        party: Whose part it is.
        proposal: The run's plan.
    """
    federation, purpose = proposal.plan.federation, proposal.plan.purpose
    run, home, day = proposal.run, proposal.home, proposal.day
    spec = federation.parties[party.name]
    stages = stages_of(federation, purpose, party.name)
    site = party.site

    def budget() -> None:
        # What is published is charged; a run that is cleared then repeats it.
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
    """Several faults as one error: a refusal if one is among them, then a budget's.

    Args:
        errors: At least one.
        what: Which run, and where.
    """
    # What a machine lacks, each of its parties says.
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
