"""Fails a run at once if its tasks can never all start, instead of letting it wait forever.

Airflow's scheduler queues a task without checking whether it can ever start. When a run starts,
this listener therefore compares the available slots with those that the run needs, and records a
shortage in XCom. The first task reads the record and fails, so that its party's notifiers are
called. The record is stored under the task after the first one, since a starting task clears its
own XCom. Any worker could write it, so its content is ignored: `opboost airflow check` reports what
is missing.

A shortage means too few slots for the tasks of horizontal learning, which wait for each other and
must run concurrently. A queue without a worker does not count: Celery's workers can only be queried
through the broker, and a busy one may not answer. A missing worker shows on the run's page while
the first task waits, and in the run's note after `[scheduler] task_queued_timeout`.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from airflow.listeners import hookimpl
from airflow.sdk import BaseXCom

from opboost_ops.errors import ConfigError
from opboost_ops.orchestration.dags.lineage import PARAMETER
from opboost_ops.orchestration.dags.run_notes import our_session
from opboost_ops.pipeline.phases import ROUNDS

#: XCom key under which the scheduler records a shortage.
KEY = "blocked_by"

#: Names of a run's first task: in the Airflow that opens the run, and in one that joins it.
_FIRST = ("open_run", "join_run")


class _Mark(BaseXCom):
    """The scheduler's record, read without deserialising a value that a worker may have forged."""

    @staticmethod
    def deserialize_value(result: Any) -> bool:
        """Return True for the scheduler's value. Called by Airflow."""
        return result.value in (True, "true")


def faults(ti: Any) -> list[ConfigError]:
    """Return an error if the run's tasks can never all start.

    A shortage is reported once: if this task is cleared while its run continues, the scheduler does
    not compare again.

    Args:
        ti: Task instance of the run's first task.
    """
    where = {"dag_id": ti.dag_id, "run_id": ti.run_id, "task_id": _after(ti.task)}
    if not _Mark.get_one(key=KEY, **where):
        return []
    _Mark.delete(KEY, where["task_id"], ti.dag_id, ti.run_id)
    return [
        ConfigError(
            "Airflow cannot start all tasks of this run: a pool or slots are missing.",
            "Run `opboost airflow check` on the scheduler's machine to see which, add them, and "
            "run again.",
        )
    ]


def form_of(conf: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return the trigger form's values: a run's configuration without OpenLineage's parameter."""
    return {name: value for name, value in (conf or {}).items() if name != PARAMETER}


def _after(task: Any) -> str:
    """Return the id of the next task in the same group, so that no other party's XCom is read."""
    group = task.task_id.rpartition(".")[0]
    return str(min(task.downstream_task_ids, key=lambda to: (to.rpartition(".")[0] != group, to)))


def slot_problems(concurrent: int, slots: int, parallelism: int) -> list[str]:
    """Return the limits that prevent tasks from starting.

    Args:
        concurrent: Number of tasks that must run concurrently.
        slots: Slots of ``default_pool``; negative for no limit.
        parallelism: Number of tasks that a scheduler runs concurrently; 0 for no limit.
    """
    short = []
    if 0 <= slots < max(concurrent, 1):
        short.append(f"default_pool has {slots} slots, and {max(concurrent, 1)} are needed")
    if 0 < parallelism < concurrent:
        short.append(f"core.parallelism is {parallelism}, and {concurrent} is needed")
    if not short:
        return []
    return [
        f"There are too few slots: {'; '.join(short)}. Add slots, and run again. In horizontal "
        "learning all parties train concurrently."
    ]


def start_problems(session: Any, dags: Sequence[Sequence[Any]]) -> list[str]:
    """Return the shortages that prevent the tasks of some DAGs from starting.

    Args:
        session: Session of Airflow's database.
        dags: The tasks of each DAG.
    """
    from airflow.configuration import conf as settings
    from sqlalchemy import select

    from opboost_ops.orchestration.pages.airflow_tables import Pool

    parallelism = settings.getint("core", "parallelism")
    slots = session.scalar(select(Pool.slots).where(Pool.pool == "default_pool"))
    problems: list[str] = []
    for tasks in dags:
        concurrent = sum(task.task_id.endswith(f".{ROUNDS}") for task in tasks)
        problems += slot_problems(concurrent, int(slots), parallelism)
    return list(dict.fromkeys(problems))


@hookimpl
def on_dag_run_running(dag_run: Any) -> None:
    """Compare the slots that a starting run needs with the available ones.

    Args:
        dag_run: The scheduler's run, in its session.
    """
    session = our_session(dag_run)
    if session is None:
        return
    from sqlalchemy import delete

    from opboost_ops.orchestration.pages.airflow_tables import XComModel

    tasks = dag_run.dag.tasks
    this = {"dag_id": dag_run.dag_id, "run_id": dag_run.run_id}
    with session.no_autoflush:
        problems = start_problems(session, [tasks])
        # Records of an earlier attempt, before the run was cleared.
        session.execute(
            delete(XComModel).where(
                XComModel.dag_id == this["dag_id"],
                XComModel.run_id == this["run_id"],
                XComModel.key == KEY,
            )
        )
        for task in tasks if problems else ():
            if task.task_id.rpartition(".")[2] in _FIRST and task.downstream_task_ids:
                XComModel.set(KEY, True, **this, task_id=_after(task), session=session)
