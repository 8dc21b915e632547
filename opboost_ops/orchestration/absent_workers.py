"""A run that ends because nobody took its tasks says so, in its note on the run's page.

Airflow ends such a run when its time is over, or fails a task that has waited in its queue for
`[scheduler] task_queued_timeout`, several times over; either way nothing says that a worker is
absent. The scheduler knows: a task that was queued and never started was never taken.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from airflow.listeners import hookimpl

from opboost_ops.orchestration.pools import TAG

#: Most letters of a note that Airflow keeps.
_LONGEST = 1000


def told(waited: Mapping[str, Sequence[str]]) -> str:
    """What a person is told.

    Args:
        waited: Ids of the tasks that nobody took, by queue.
    """
    lines = [
        f"No worker took {', '.join(sorted(tasks))} from the queue {queue}. Start the worker of "
        f"that queue, or see why it does not reach the broker; then run again."
        for queue, tasks in sorted(waited.items())
    ]
    return "\n".join(lines)[:_LONGEST]


@hookimpl
def on_dag_run_failed(dag_run: Any) -> None:
    """Leave a note if tasks of a failed run were never taken.

    Args:
        dag_run: The scheduler's run, in its session.
    """
    dag = dag_run.dag
    if dag is None or TAG not in dag.tags:
        return
    from airflow.models.taskinstance import TaskInstance
    from sqlalchemy import select
    from sqlalchemy.orm import object_session

    session = object_session(dag_run)
    if session is None:
        return
    never_taken = (
        select(TaskInstance.queue, TaskInstance.task_id)
        .where(TaskInstance.dag_id == dag_run.dag_id, TaskInstance.run_id == dag_run.run_id)
        .where(
            # At its first try, or at a later one whose worker has died since.
            TaskInstance.queued_dttm.is_not(None),
            TaskInstance.pid.is_(None) | (TaskInstance.queued_dttm > TaskInstance.start_date),
        )
    )
    waited: dict[str, list[str]] = {}
    for queue, task in session.execute(never_taken):
        waited.setdefault(str(queue), []).append(task)
    if waited:
        dag_run.note = told(waited)
