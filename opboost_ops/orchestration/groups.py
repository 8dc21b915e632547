"""A run's task groups: one for each phase of each party, acyclic among themselves."""

from collections.abc import Iterator, Mapping
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

from airflow.sdk import Asset, TaskGroup, task

from opboost_ops.config.federation import Federation
from opboost_ops.orchestration import tasks
from opboost_ops.orchestration.phases import DESCRIPTIONS, TITLES
from opboost_ops.protocol import SHARDED, Phase, Purpose, phases

#: What the UI calls one of the tasks that treat a file each.
_FILE = "file {{ task.op_kwargs['shard'] }}"


def add_groups(
    federation: Federation, purpose: Purpose, path: Path, outlets: Mapping[str, Asset]
) -> None:
    """Add all tasks of a run to the DAG at hand.

    Args:
        federation: What its file says.
        purpose: What the runs are for.
        path: The file, as the label holder's worker finds it.
        outlets: Assets that the last tasks of some stages emit, by stage.
    """
    ends: list[Any] = []
    opened: Any = None
    for phase in phases(federation, purpose):
        chains = []
        for party in phase.parties(federation):
            first = str(path) if opened is None else ""
            chains.append(_group(federation, purpose, phase, party, first, outlets))
            for end in [opened] if phase.beside else ends:
                end >> chains[-1][0]
            opened = opened or chains[0][0]
        kept = ends if phase.beside else []
        ends = [*kept, *(chain[-1] for chain in chains)]


def _group(
    federation: Federation,
    purpose: Purpose,
    phase: Phase,
    party: str,
    first: str,
    outlets: Mapping[str, Asset],
) -> list[Any]:
    title, tooltip = TITLES[phase.name]
    group = f"{party}_{phase.name}"
    with TaskGroup(group, group_display_name=f"{party}: {title}", tooltip=tooltip):
        chain = list(_tasks(federation, purpose, phase, party, first, outlets))
    for before, after in pairwise(chain):
        before >> after
    return chain


def _tasks(
    federation: Federation,
    purpose: Purpose,
    phase: Phase,
    party: str,
    first: str,
    outlets: Mapping[str, Asset],
) -> Iterator[Any]:
    spec = federation.parties[party]
    common: dict[str, Any] = {"owner": party, "queue": spec.queue, "multiple_outputs": False}
    if first:
        # In default_pool, which always exists: it is the task that reports missing pools.
        yield task(task_id="open_run", doc_md=DESCRIPTIONS["open_run"], **common)(tasks.open_run)(
            first, purpose
        )
    of: dict[str, Any] = {
        "party": party,
        "federation": federation.name,
        "label_holder": federation.label_holder,
    }
    shards: Any = None
    for stage in phase.stages_at(spec):
        emits = [outlets[stage]] if stage in outlets else []
        made = partial(
            task, task_id=stage, pool=spec.pool, doc_md=DESCRIPTIONS[stage], outlets=emits, **common
        )
        if stage == "list_shards":
            shards = made()(tasks.list_shards)(**of)
            yield shards
        elif shards is not None and stage in SHARDED:
            mapped = made(map_index_template=_FILE)(tasks.run_stage)
            yield mapped.partial(stage=stage, **of).expand(shard=shards)
        else:
            yield made()(tasks.run_stage)(stage=stage, **of)
