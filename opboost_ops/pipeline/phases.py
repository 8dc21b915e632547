"""The order of a run: in which phase which party runs which steps, in which Airflow tasks.

It follows from `pipeline.protocol`. Light, because DAG files are made from it at every parse.
"""

from collections.abc import Iterator
from dataclasses import replace
from functools import cache

from opboost_ops.config.federation import Federation, Purpose
from opboost_ops.exchange.kinds import KINDS, ArtifactKind, RunType, kinds_of, run_type
from opboost_ops.pipeline.protocol import PHASES, STEPS, Chain, Phase, Step

#: The label holder's first stage, which no phase lists.
OPEN = "open_run"

#: The stage in which parties exchange messages of their own, and so run at the same time.
ROUNDS = "boost"


def phases(federation: Federation, purpose: Purpose) -> tuple[Phase, ...]:
    """All phases of a run in their order; each begins when the one before has ended everywhere.

    One that is ``beside`` begins as soon as the run is open.

    Args:
        federation: As declared.
        purpose: What the run is for.
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
    """All stages of one party in their order.

    Args:
        federation: As declared.
        purpose: What the run is for.
        party: Its name.
    """
    mine = (p for p in phases(federation, purpose) if party in p.parties(federation))
    return tuple(stage for phase in mine for stage in phase.stages)


def steps(federation: Federation, purpose: Purpose) -> Iterator[tuple[str, str]]:
    """All stages of all parties, as party and stage, in an order in which every input is there.

    Args:
        federation: As declared.
        purpose: What the run is for.
    """
    for phase in phases(federation, purpose):
        for party in phase.parties(federation):
            yield from ((party, stage) for stage in phase.stages)


def stages_by_task(federation: Federation, purpose: Purpose) -> dict[str, tuple[str, ...]]:
    """The stages of each task of a run that runs stages, by its id: ``<party>_<phase>.<name>``.

    Args:
        federation: As declared.
        purpose: What the run is for.
    """
    return {
        f"{party}_{phase.name}.{chain.name}": chain.stages
        for phase in phases(federation, purpose)
        for party in phase.parties(federation)
        for chain in phase.chains
    }


def tasks_with(stage: str) -> frozenset[str]:
    """Names of the tasks that run a stage, in any federation.

    Args:
        stage: Its name.
    """
    return frozenset(task.split(".")[1] for task in STEPS[stage].tasks)


def stages_in(task: str) -> frozenset[str]:
    """Stages that a task of this name runs, in any federation.

    Args:
        task: Its name, without its groups.
    """
    return frozenset(stage for stage in STEPS if task in tasks_with(stage))
