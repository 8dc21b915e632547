"""A run whose tasks can never start ends at once, instead of waiting without end.

Airflow's scheduler queues a task without asking whether it can ever start. So when a run starts,
this listener compares slots with what the run needs and leaves in XCom that something is missing;
the first task finds that and fails, so that its party's notifiers tell of it. It lies at the task
after the first one, since a task's own XCom is emptied when it starts. Any worker can write it, so
its text is read by nobody: `opboost airflow check` names what is missing.

A problem is too few slots for the tasks of horizontal learning, which wait for each other and must
all run at the same time. A queue without a worker is none: Celery's workers can only be asked over
the broker, and a busy one may not answer. A missing worker shows on the run's page while its first
task waits, and in the run's note after `[scheduler] task_queued_timeout`.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from airflow.listeners import hookimpl
from airflow.sdk import BaseXCom

from opboost_ops.errors import ConfigError
from opboost_ops.orchestration.dags.lineage import PARAMETER
from opboost_ops.orchestration.dags.run_notes import our_session
from opboost_ops.pipeline.phases import ROUNDS

#: Under this key the scheduler leaves problems in XCom.
KEY = "blocked_by"

#: The tasks that come first, in one Airflow or in a half.
_FIRST = ("open_run", "join_run")


class _Mark(BaseXCom):
    """The scheduler's mark, of which a worker's own value makes no object in this process."""

    @staticmethod
    def deserialize_value(result: Any) -> bool:
        """True for what the scheduler has left. Airflow calls it."""
        return result.value in (True, "true")


def faults(ti: Any) -> list[ConfigError]:
    """Problems that keep tasks of a run from ever starting.

    It is reported once: where the task is cleared while its run goes on, the scheduler does not
    look again.

    Args:
        ti: The run's first task, as it runs.
    """
    where = {"dag_id": ti.dag_id, "run_id": ti.run_id, "task_id": _after(ti.task)}
    if not _Mark.get_one(key=KEY, **where):
        return []
    _Mark.delete(KEY, where["task_id"], ti.dag_id, ti.run_id)
    return [
        ConfigError(
            "Airflow cannot start all tasks of this run: a pool or slots are missing.",
            "`opboost airflow check`, on the scheduler's machine, says which. Add it, and run "
            "again.",
        )
    ]


def form_of(conf: Mapping[str, Any] | None) -> dict[str, Any]:
    """The trigger form's values: a run's configuration without what no form asks for.

    Args:
        conf: The run's configuration.
    """
    return {name: value for name, value in (conf or {}).items() if name != PARAMETER}


def _after(task: Any) -> str:
    """The task that comes next in the same group: a site may read nothing of another party's."""
    group = task.task_id.rpartition(".")[0]
    return str(min(task.downstream_task_ids, key=lambda to: (to.rpartition(".")[0] != group, to)))


def slot_problems(together: int, slots: int, parallelism: int) -> list[str]:
    """Limits that keep tasks from starting.

    Args:
        together: Number of tasks that must run at the same time.
        slots: Slots of ``default_pool``; negative where it has no limit.
        parallelism: Number of tasks that a scheduler runs at once; 0 for no limit.
    """
    short = []
    if 0 <= slots < max(together, 1):
        short.append(f"default_pool has {slots} slots, and {max(together, 1)} are needed")
    if 0 < parallelism < together:
        short.append(f"core.parallelism is {parallelism}, and {together} is needed")
    if not short:
        return []
    return [
        f"There are too few slots: {'; '.join(short)}. Give more, and run again. In horizontal "
        "learning all parties train at the same time."
    ]


def start_problems(session: Any, dags: Sequence[Sequence[Any]]) -> list[str]:
    """Problems that keep tasks from ever starting.

    Args:
        session: Of Airflow's database.
        dags: The tasks of each DAG.
    """
    from airflow.configuration import conf as settings
    from sqlalchemy import select

    from opboost_ops.orchestration.pages.airflow_tables import Pool

    parallelism = settings.getint("core", "parallelism")
    slots = session.scalar(select(Pool.slots).where(Pool.pool == "default_pool"))
    problems: list[str] = []
    for tasks in dags:
        together = sum(task.task_id.endswith(f".{ROUNDS}") for task in tasks)
        problems += slot_problems(together, int(slots), parallelism)
    return list(dict.fromkeys(problems))


@hookimpl
def on_dag_run_running(dag_run: Any) -> None:
    """Compare a starting run's needs with the slots that there are.

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
        # Those of an earlier attempt, before the run was cleared.
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
