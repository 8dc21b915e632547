"""Task groups of a run: one per phase and party, without cycles between groups.

Which stages a task runs is declared once, in `pipeline.protocol`.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import timedelta
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

from airflow.sdk import Asset, TaskGroup

from opboost_ops.config.federation import Federation, Purpose
from opboost_ops.orchestration.dags import tasks
from opboost_ops.orchestration.dags.documentation import OPENS, description
from opboost_ops.orchestration.dags.notifications import CALLBACKS
from opboost_ops.orchestration.dags.operators import FormOperator, PartyOperator
from opboost_ops.pipeline.phases import phases
from opboost_ops.pipeline.protocol import STEPS
from opboost_ops.pipeline.step_types import Phase

#: Only network failures are retried; `tasks.execute` makes all other failures final.
_RETRIES = {
    "retries": 3,
    "retry_delay": timedelta(seconds=15),
    "retry_exponential_backoff": 2,
    "max_retry_delay": timedelta(minutes=10),
    **CALLBACKS,
}

#: Fraction of a run's timeout that one of its tasks may take.
_TASK_SHARE = 0.95

#: Creates a task that precedes a phase's first one.
Lead = Callable[[], Any]


def add_groups(
    federation: Federation,
    purpose: Purpose,
    path: Path,
    form: Mapping[str, Any] | None = None,
) -> None:
    """Add all tasks of a run to the current DAG.

    Args:
        federation: The parsed federation file.
        purpose: ``train`` or ``score``.
        path: Path of the file on the label holder's worker.
        form: Replaces the DAG's trigger form, in a handwritten DAG.
    """
    ends: list[Any] = []
    opened: Any = None
    for phase in phases(federation, purpose):
        chains = []
        for party in phase.parties(federation):
            lead = open_run_task(federation, purpose, path, form) if opened is None else None
            chains.append(add_group(federation, phase, party, lead))
            for end in [opened] if phase.beside else ends:
                end >> chains[-1][0]
            opened = opened or chains[0][0]
        earlier = ends if phase.beside else []
        ends = [*earlier, *(chain[-1] for chain in chains)]


def open_run_task(
    federation: Federation, purpose: Purpose, path: Path, form: Mapping[str, Any] | None = None
) -> Lead:
    """Return a factory of the task that opens a run, which comes first.

    Args:
        federation: The parsed federation file.
        purpose: ``train`` or ``score``.
        path: Path of the file on the label holder's worker.
        form: Replaces the DAG's trigger form, in a handwritten DAG.
    """
    operator = PartyOperator if form is None else partial(FormOperator, form=form)
    common = common_of(federation, federation.label_holder)
    return partial(
        operator,
        task_id="open_run",
        doc_md=OPENS,
        python_callable=tasks.open_run,
        op_kwargs={"federation_file": str(path), "purpose": purpose},
        **common,
    )


def timeout(federation: Federation) -> timedelta:
    """Return the timeout of a federation's runs."""
    return timedelta(hours=federation.schedule.timeout_hours)


def task_defaults(federation: Federation) -> dict[str, Any]:
    """Return the default arguments of a federation's tasks.

    A hanging task times out before its run does, so that the run's note can name the task.
    """
    return {**_RETRIES, "execution_timeout": timeout(federation) * _TASK_SHARE}


def common_of(federation: Federation, party: str) -> dict[str, Any]:
    """Return the operator arguments that all tasks of a party share."""
    return {"owner": party, "queue": federation.parties[party].queue}


def asset(federation: Federation, what: str) -> Asset:
    """Return the asset of the champion, or of the scores of new rows.

    Args:
        federation: The parsed federation file.
        what: ``champion``, emitted at each promotion, or ``scores``.
    """
    return Asset(name=f"{federation.name}_{what}", uri=f"x-opboost://{federation.name}/{what}")


def party_of(federation: Federation, party: str) -> dict[str, str]:
    """Return the task arguments that name a party and its federation."""
    return {"party": party, "federation": federation.name, "label_holder": federation.label_holder}


def add_group(
    federation: Federation,
    phase: Phase,
    party: str,
    lead: Lead | None = None,
) -> Sequence[Any]:
    """Add a phase of a party to the current DAG.

    Args:
        federation: The parsed federation file.
        phase: The phase.
        party: Name of the party.
        lead: Creates a task that precedes the first one.

    Returns:
        The group's tasks, in order.
    """
    group = f"{party}_{phase.name}"
    with TaskGroup(group, group_display_name=f"{party}: {phase.title}", tooltip=phase.does):
        chain = [lead()] if lead else []
        chain += _tasks(federation, phase, party)
    for before, after in pairwise(chain):
        before >> after
    return chain


def _tasks(federation: Federation, phase: Phase, party: str) -> Iterator[Any]:
    of = party_of(federation, party)
    for chain in phase.chains:
        arguments: dict[str, Any] = {
            "task_id": chain.name,
            "doc_md": description(chain),
            "outlets": [
                asset(federation, emits) for s in chain.stages if (emits := STEPS[s].emits)
            ],
            "python_callable": tasks.run_stages,
            "op_kwargs": {**of, "stages": list(chain.stages)},
            **common_of(federation, party),
        }
        yield PartyOperator(**arguments)
