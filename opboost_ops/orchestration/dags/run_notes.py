"""Writes a note on a run's page: why it failed, or why it has no new champion.

Airflow shows a note next to the run's state, where users look first. The scheduler writes it, since
only it knows both what failed tasks pushed to XCom and which tasks no worker took. Airflow ends
a run at its timeout, or fails a task that was queued for several times `[scheduler]
task_queued_timeout`; in either case nothing else reports the absent worker.

Airflow prints every exception with a traceback, which is useless to operators: all frames are in
Airflow and this software. Failures of OpBoost tasks are therefore logged as plain lines.
"""

import json
import logging
import re
import sys
import textwrap
from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from typing import Any, ParamSpec, TypeVar

from airflow.listeners import hookimpl
from airflow.sdk import get_current_context
from airflow.sdk.exceptions import AirflowFailException

from opboost_ops.orchestration.pages.airflow import (
    FAILURE,
    TAG,
    failure_in,
    failures_query,
    place_of,
)

#: Maximum bytes that a task may push to XCom.
XCOM_LIMIT = 2048

_WIDTH = 100

_LOG = logging.getLogger("opboost_ops")

_P = ParamSpec("_P")
_R = TypeVar("_R")

#: Additional tag of the DAG for admin actions.
ADMIN_TAG = "admin"

#: Airflow's maximum length of a note, in characters.
_LONGEST = 1000

#: Beginnings of the note on a failed run; notes that people wrote are kept.
_FAILED, _ABSENT = "**", "No worker took "

#: Beginning of the note on a run whose model the gate rejected.
_REJECTED = "The gate rejected "


class TaskFailedError(AirflowFailException):
    """A task failed for good; the message says how to fix it.

    Args:
        problem: What happened, and where.
        remedy: How to fix it.
        stage: Name of the failed stage, in a task that runs stages.
    """

    def __init__(self, problem: str, remedy: str = "", stage: str = "") -> None:
        self.problem = problem
        self.remedy = remedy
        self.stage = stage
        super().__init__(f"{problem} {remedy}".strip())


class BudgetRefusedError(TaskFailedError):
    """A task failed because a party's own budget does not allow the release."""


class NetworkError(ConnectionError):
    """The network failed during a task, which Airflow retries.

    Args:
        words: What happened.
        stage: Name of the failed stage, in a task that runs stages.
    """

    def __init__(self, words: str, stage: str = "") -> None:
        self.stage = stage
        super().__init__(words)


def log_failure(function: Callable[_P, _R]) -> Callable[_P, _R]:
    """Decorate a task's function to log its failure as plain lines and note it in XCom."""

    @wraps(function)
    def task(*args: _P.args, **kwargs: _P.kwargs) -> _R:
        try:
            return function(*args, **kwargs)
        except AirflowFailException as error:
            _log_failure(error)
            raise

    return task


def _log_failure(error: AirflowFailException) -> None:
    problem = getattr(error, "problem", str(error))
    remedy = getattr(error, "remedy", "")
    stage = getattr(error, "stage", "")
    for line in lines(f"{stage}: {problem}" if stage else problem, remedy):
        _LOG.error(line)
    _without_traceback()
    record = {
        "refused": isinstance(error, BudgetRefusedError),
        "problem": problem,
        "remedy": remedy,
        "stage": stage,
    }
    if len(json.dumps(record).encode()) > XCOM_LIMIT:
        # A character may take six bytes as ASCII.
        record |= {"problem": f"{problem[:245]}… (all of it is in the log)", "remedy": remedy[:60]}
    try:
        get_current_context()["ti"].xcom_push(FAILURE, record)
    except Exception as push_error:
        # The task must fail with its own message, not with this one.
        _LOG.warning("the failure could not be noted for the pages (%s)", type(push_error).__name__)


def lines(problem: str, remedy: str) -> list[str]:
    """Wrap a failure into lines that a log shows in full.

    Args:
        problem: What happened, and where.
        remedy: How to fix it.
    """
    wrapped = []
    for text in (*problem.splitlines(), remedy):
        wrapped += textwrap.wrap(text, _WIDTH, subsequent_indent="  ", break_on_hyphens=False)
    return wrapped


def _without_traceback() -> None:
    """Make Airflow's log of this process print our failures without a traceback."""
    import structlog

    processors = structlog.get_config()["processors"]
    if _plain_text not in processors:
        processors.insert(0, _plain_text)


def _plain_text(logger: Any, method: str, event: Any) -> Any:  # noqa: ARG001
    info = event.get("exc_info")
    error = sys.exc_info()[1] if info is True else info
    if isinstance(error, AirflowFailException):
        del event["exc_info"]
        event["event"] = "The task has failed; the lines above give the reason and the fix."
    return event


def by_hand(msg: str) -> bool:
    """True if a person set a run's state, for which Airflow's API server calls listeners as well.

    Args:
        msg: Airflow's message about the change.
    """
    return "manually set" in msg


def our_session(dag_run: Any) -> Any:
    """Return the scheduler's session if a run belongs to a federation, else None.

    Args:
        dag_run: The scheduler's run, in its session.
    """
    dag = dag_run.dag
    if dag is None or TAG not in dag.tags:
        return None
    from sqlalchemy.orm import object_session

    return object_session(dag_run)


def absent_worker_lines(waited: Mapping[str, Sequence[str]]) -> list[str]:
    """Return a line per queue whose worker is absent.

    Args:
        waited: Ids of the tasks that no worker took, by queue.
    """
    return [
        f"{_ABSENT}{', '.join(sorted(tasks))} from the queue {queue}. Start the worker of "
        f"that queue, or find out why it cannot reach the broker; then run again."
        for queue, tasks in sorted(waited.items())
    ]


def failure_lines(failures: Sequence[tuple[str, Any]]) -> list[str]:
    """Return a line per failed task.

    Args:
        failures: Id of each task, and the value that it pushed to XCom.
    """
    lines = []
    for task, value in failures:
        failure = failure_in(value)
        if failure is not None:
            party, name = place_of(task)
            stage = failure.stage or name
            where = f"{party}: {stage}" if party else stage
            text = _without_markdown(f"{failure.problem} {failure.remedy}".strip())
            lines.append(f"{_FAILED}{_without_markdown(where)}** has failed. {text}")
    return lines


def _without_markdown(text: str) -> str:
    """Escape text so that Markdown renders no link, picture or HTML."""
    # Airflow also links bare addresses: an invisible word joiner breaks them.
    addresses = r"(?<=:)(?=//)|(?<=www)(?=\.)|(?<=\w)(?=@)"
    divided = re.sub(addresses, "\u2060", text, flags=re.IGNORECASE)
    return re.sub(r"([\\\[\]<>])", r"\\\1", divided)


@hookimpl
def on_dag_run_running(dag_run: Any) -> None:
    """Remove our note on an earlier failure when a run is cleared.

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
    """Leave a note if the gate rejected the run's model.

    Args:
        dag_run: The scheduler's run, in its session.
        msg: Airflow's message about the run's end.
    """
    session = our_session(dag_run)
    if session is None or by_hand(msg):
        return
    from sqlalchemy import select

    from opboost_ops.orchestration.pages.airflow_tables import TaskInstance

    # The decision is public: announcing it is a ledger entry whose receiver is everyone.
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
    """Leave a note that says why a run failed.

    Args:
        dag_run: The scheduler's run, in its session.
        msg: Airflow's message about the run's end.
    """
    session = our_session(dag_run)
    # Tasks that a person removed from the queue were not waiting for a worker.
    if session is None or by_hand(msg):
        return
    from sqlalchemy import select

    from opboost_ops.orchestration.pages.airflow_tables import TaskInstance

    this = (dag_run.dag_id, dag_run.run_id)
    failed = select(TaskInstance.task_id).where(
        TaskInstance.dag_id == this[0],
        TaskInstance.run_id == this[1],
        TaskInstance.state == "failed",
    )
    never_taken = (
        select(TaskInstance.queue, TaskInstance.task_id)
        .where(TaskInstance.dag_id == this[0], TaskInstance.run_id == this[1])
        .where(
            # Queued for the first time, or again after its worker died.
            TaskInstance.queued_dttm.is_not(None),
            TaskInstance.pid.is_(None) | (TaskInstance.queued_dttm > TaskInstance.start_date),
        )
    )
    with session.no_autoflush:
        ended = set(session.scalars(failed))
        left = session.execute(failures_query(*this))
        failures = failure_lines([(task, value) for task, value in left if task in ended])
        waited: dict[str, list[str]] = {}
        for queue, task in session.execute(never_taken):
            waited.setdefault(str(queue), []).append(task)
    text = "\n\n".join([*failures, *absent_worker_lines(waited)])
    if text:
        dag_run.note = text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"
