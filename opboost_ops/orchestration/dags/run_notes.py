"""Why a run has failed, or has no new champion, in its note on the run's page.

Airflow shows a note beside the run's state, where people look first. The scheduler writes it, as
it alone knows all: what failed tasks have left in XCom, and which tasks no worker has taken.
Airflow ends a run whose time is over, or fails a task that has waited in its queue for `[scheduler]
task_queued_timeout`, several times over; either way nothing else says that a worker is absent.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from airflow.listeners import hookimpl

from opboost_ops.orchestration.pages.airflow import FAILURE, failure_in, place_of
from opboost_ops.orchestration.pages.airflow import TAG as TAG

#: The DAG by which people act has it besides.
ADMIN_TAG = "admin"


def by_hand(msg: str) -> bool:
    """True if a person has set a run's state: Airflow's API server then calls listeners, too.

    Args:
        msg: What Airflow says of the change.
    """
    return "manually set" in msg


def our_session(dag_run: Any) -> Any:
    """The scheduler's session, where a run is one of ours; None otherwise.

    Args:
        dag_run: The scheduler's run, in its session.
    """
    dag = dag_run.dag
    if dag is None or TAG not in dag.tags:
        return None
    from sqlalchemy.orm import object_session

    return object_session(dag_run)


#: Most letters of a note that Airflow keeps.
_LONGEST = 1000

#: How the note of a failed run begins; one of a person's own stays.
_FAILED, _ABSENT = "**", "No worker took "

#: How the note of a run begins whose model the gate rejected.
_REJECTED = "The gate rejected "


def absent_worker_lines(waited: Mapping[str, Sequence[str]]) -> list[str]:
    """A line for each queue whose worker is absent.

    Args:
        waited: Ids of the tasks that nobody took, by queue.
    """
    return [
        f"{_ABSENT}{', '.join(sorted(tasks))} from the queue {queue}. Start the worker of "
        f"that queue, or see why it does not reach the broker; then run again."
        for queue, tasks in sorted(waited.items())
    ]


def failure_lines(failures: Sequence[tuple[str, Any]]) -> list[str]:
    """A line for each task that has failed.

    Args:
        failures: Id of a task, and what it has left in XCom.
    """
    lines = []
    for task, value in failures:
        failure = failure_in(value)
        if failure is not None:
            party, name = place_of(task)
            stage = failure.stage or name
            where = f"{party}: {stage}" if party else stage
            text = _plain(f"{failure.problem} {failure.remedy}".strip())
            lines.append(f"{_FAILED}{_plain(where)}** has failed. {text}")
    return lines


def _plain(text: str) -> str:
    """Text in which Markdown finds no link, picture or HTML."""
    return re.sub(r"([\\\[\]<>])", r"\\\1", text)


@hookimpl
def on_dag_run_running(dag_run: Any) -> None:
    """Remove our note on an earlier failure from a run that was cleared.

    Args:
        dag_run: The scheduler's run, in its session.
    """
    session = our_session(dag_run)
    if session is None:
        return
    with session.no_autoflush:
        if str(dag_run.note or "").startswith((_FAILED, _ABSENT, _REJECTED)):
            dag_run.note = None


@hookimpl
def on_dag_run_success(dag_run: Any, msg: str) -> None:
    """Leave a note where the gate rejected the run's model.

    Args:
        dag_run: The scheduler's run, in its session.
        msg: What Airflow says of its end.
    """
    session = our_session(dag_run)
    if session is None or by_hand(msg):
        return
    from sqlalchemy import select

    from opboost_ops.orchestration.pages.airflow_tables import TaskInstance

    # The gate's verdict is public: the announcement is an entry of the ledger towards everybody.
    states = select(TaskInstance.task_id, TaskInstance.state).where(
        TaskInstance.dag_id == dag_run.dag_id, TaskInstance.run_id == dag_run.run_id
    )
    with session.no_autoflush:
        ended = {place_of(task)[1]: state for task, state in session.execute(states)}
    if (ended.get("register"), ended.get("announce_champion")) == ("success", "skipped"):
        dag_run.note = dag_run.note or (
            f"{_REJECTED}the model, and the champion is unchanged. The models page shows both."
        )


@hookimpl
def on_dag_run_failed(dag_run: Any, msg: str) -> None:
    """Leave a note that says why a run has failed.

    Args:
        dag_run: The scheduler's run, in its session.
        msg: What Airflow says of its end.
    """
    session = our_session(dag_run)
    # Tasks that a person took out of their queue were not waiting for a worker.
    if session is None or by_hand(msg):
        return
    from sqlalchemy import select

    from opboost_ops.orchestration.pages.airflow_tables import TaskInstance, XComModel

    this = (dag_run.dag_id, dag_run.run_id)
    failed = select(TaskInstance.task_id).where(
        TaskInstance.dag_id == this[0],
        TaskInstance.run_id == this[1],
        TaskInstance.state == "failed",
    )
    left = (
        select(XComModel.task_id, XComModel.value)
        .where(XComModel.dag_id == this[0], XComModel.run_id == this[1])
        .where(XComModel.key == FAILURE, XComModel.task_id.in_(failed))
        .order_by(XComModel.timestamp)
    )
    never_taken = (
        select(TaskInstance.queue, TaskInstance.task_id)
        .where(TaskInstance.dag_id == this[0], TaskInstance.run_id == this[1])
        .where(
            # At its first try, or at a later one whose worker has died since.
            TaskInstance.queued_dttm.is_not(None),
            TaskInstance.pid.is_(None) | (TaskInstance.queued_dttm > TaskInstance.start_date),
        )
    )
    with session.no_autoflush:
        failures = failure_lines([(str(task), value) for task, value in session.execute(left)])
        waited: dict[str, list[str]] = {}
        for queue, task in session.execute(never_taken):
            waited.setdefault(str(queue), []).append(task)
    text = "\n\n".join([*failures, *absent_worker_lines(waited)])
    if text:
        dag_run.note = text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"
