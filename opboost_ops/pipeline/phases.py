"""The order of a run: the steps of each party by phase, and their Airflow tasks.

It is derived from `pipeline.protocol`. Imports are light, because DAG files are parsed often.
"""

from collections.abc import Iterator
from dataclasses import replace
from functools import cache

from opboost_ops.config.federation import Federation, Purpose
from opboost_ops.exchange.kinds import KINDS, ArtifactKind, RunType, kinds_of, run_type
from opboost_ops.pipeline.protocol import PHASES, STEPS
from opboost_ops.pipeline.step_types import Chain, Phase, Step

#: The label holder's first stage, which is in no phase.
OPEN = "open_run"

#: The stage in which all parties run at the same time and exchange messages in rounds.
ROUNDS = "boost"


def phases(federation: Federation, purpose: Purpose) -> tuple[Phase, ...]:
    """Return all phases of a run in order; each begins when the one before has ended everywhere.

    A phase that is ``beside`` begins as soon as the run is open.

    Args:
        federation: The federation as declared.
        purpose: The run's purpose.
    """
    return _phases(run_type(federation, purpose), kinds_of(federation, purpose))


@cache
def _phases(run: RunType, kinds: tuple[ArtifactKind, ...]) -> tuple[Phase, ...]:
    declared = [phase for phase in PHASES if run in phase.runs]
    result: list[Phase] = []
    sent: set[str] = set()
    for number, phase in enumerate(declared):
        later = [other for other in declared[number + 1 :] if {*phase.roles} & {*other.roles}]
        chains: dict[str, list[Step]] = {}
        for step in STEPS.values():
            task = step.task_in(phase.name)
            if task and run in step.runs and not any(step.task_in(other.name) for other in later):
                chains.setdefault(task, []).append(step)
        steps = [step for chain in chains.values() for step in chain]
        signer = "label_holder" if "label_holder" in phase.roles else "party"
        wanted = {kind for step in steps for kind in step.reads} & sent
        awaits = tuple(k.name for k in kinds if k.name in wanted and k.signer != signer)
        sent -= {*awaits}
        sent |= {name for s in steps for name in s.publishes if KINDS[name].signer == signer}
        stages = (Chain(task, tuple(s.name for s in chain)) for task, chain in chains.items())
        result.append(replace(phase, chains=tuple(stages), awaits=awaits))
    return tuple(result)


def stages_of(federation: Federation, purpose: Purpose, party: str) -> tuple[str, ...]:
    """Return all stages of one party in order.

    Args:
        federation: The federation as declared.
        purpose: The run's purpose.
        party: Name of the party.
    """
    mine = (p for p in phases(federation, purpose) if party in p.parties(federation))
    return tuple(stage for phase in mine for stage in phase.stages)


def steps(federation: Federation, purpose: Purpose) -> Iterator[tuple[str, str]]:
    """Yield party and stage of all stages, in an order in which every input exists.

    Args:
        federation: The federation as declared.
        purpose: The run's purpose.
    """
    for phase in phases(federation, purpose):
        for party in phase.parties(federation):
            yield from ((party, stage) for stage in phase.stages)


def stages_by_task(federation: Federation, purpose: Purpose) -> dict[str, tuple[str, ...]]:
    """Return the stages of each task of a run, by task ID ``<party>_<phase>.<name>``.

    Args:
        federation: The federation as declared.
        purpose: The run's purpose.
    """
    return {
        f"{party}_{phase.name}.{chain.name}": chain.stages
        for phase in phases(federation, purpose)
        for party in phase.parties(federation)
        for chain in phase.chains
    }


def tasks_with(stage: str) -> frozenset[str]:
    """Return the names of the tasks that run a stage, in any federation.

    Args:
        stage: Name of the stage.
    """
    return frozenset(task.split(".")[1] for task in STEPS[stage].tasks)


def stages_in(task: str) -> frozenset[str]:
    """Return the stages that a task of this name runs, in any federation.

    Args:
        task: The task's name, without its groups.
    """
    return frozenset(stage for stage in STEPS if task in tasks_with(stage))
