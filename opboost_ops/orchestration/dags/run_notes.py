"""Why a run has failed, or has no new champion, in its note on the run's page.

Airflow shows a note beside the run's state, where people look first. The scheduler writes it, as
it alone knows all: what failed tasks have left in XCom, and which tasks no worker has taken.
Airflow ends a run whose time is over, or fails a task that has waited in its queue for `[scheduler]
task_queued_timeout`, several times over; either way nothing else says that a worker is absent.

Airflow prints every exception with its traceback, which says nothing to who runs a federation: all
frames are Airflow's and this software's own. What a task of ours raises is told by its lines.
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
    failures_left,
    place_of,
)

#: Most bytes that a task may leave in XCom.
XCOM_LIMIT = 2048

_WIDTH = 100

_LOG = logging.getLogger("opboost_ops")

_P = ParamSpec("_P")
_R = TypeVar("_R")

#: The DAG by which people act has it besides.
ADMIN_TAG = "admin"

#: Most letters of a note that Airflow keeps.
_LONGEST = 1000

#: How the note of a failed run begins; one of a person's own stays.
_FAILED, _ABSENT = "**", "No worker took "

#: How the note of a run begins whose model the gate rejected.
_REJECTED = "The gate rejected "


class Failed(AirflowFailException):
    """A task failed for good, and says what to do.

    Args:
        problem: What happened, and where.
        remedy: What to do about it.
        stage: Which of its stages failed, in a task that runs stages.
    """

    def __init__(self, problem: str, remedy: str = "", stage: str = "") -> None:
        self.problem = problem
        self.remedy = remedy
        self.stage = stage
        super().__init__(f"{problem} {remedy}".strip())


class RefusedBudget(Failed):
    """A task failed because a party's own budget refuses the release."""


class NetworkError(ConnectionError):
    """The network failed a task, which is tried again.

    Args:
        words: What happened.
        stage: Which of its stages failed, in a task that runs stages.
    """

    def __init__(self, words: str, stage: str = "") -> None:
        self.stage = stage
        super().__init__(words)


def plainly(function: Callable[_P, _R]) -> Callable[_P, _R]:
    """A task's function that tells its failure before it fails.

    Args:
        function: What the task does.
    """

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
    left = {
        "refused": isinstance(error, RefusedBudget),
        "problem": problem,
        "remedy": remedy,
        "stage": stage,
    }
    if len(json.dumps(left).encode()) > XCOM_LIMIT:
        # In ASCII a letter may take six bytes.
        left |= {"problem": f"{problem[:245]}… (all of it is in the log)", "remedy": remedy[:60]}
    try:
        get_current_context()["ti"].xcom_push(FAILURE, left)
    except Exception as unsaid:
        # The task fails with its own message, not with this one.
        _LOG.warning("the failure could not be noted for the pages (%s)", type(unsaid).__name__)


def lines(problem: str, remedy: str) -> list[str]:
    """A failure as lines that a log shows whole.

    Args:
        problem: What happened, and where.
        remedy: What to do about it.
    """
    wrapped = []
    for text in (*problem.splitlines(), remedy):
        wrapped += textwrap.wrap(text, _WIDTH, subsequent_indent="  ", break_on_hyphens=False)
    return wrapped


def _without_traceback() -> None:
    """Let Airflow's log of this process print our failures without a traceback."""
    import structlog

    processors = structlog.get_config()["processors"]
    if _plain_text not in processors:
        processors.insert(0, _plain_text)


def _plain_text(logger: Any, method: str, event: Any) -> Any:  # noqa: ARG001
    info = event.get("exc_info")
    error = sys.exc_info()[1] if info is True else info
    if isinstance(error, AirflowFailException):
        del event["exc_info"]
        event["event"] = "The task has failed; the lines above say why, and what to do."
    return event


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
            text = _without_markdown(f"{failure.problem} {failure.remedy}".strip())
            lines.append(f"{_FAILED}{_without_markdown(where)}** has failed. {text}")
    return lines


def _without_markdown(text: str) -> str:
    """Text in which Markdown finds no link, picture or HTML."""
    # Airflow's makes links of bare addresses, too: a word joiner, which nobody sees, divides them.
    addresses = r"(?<=:)(?=//)|(?<=www)(?=\.)|(?<=\w)(?=@)"
    divided = re.sub(addresses, "\u2060", text, flags=re.IGNORECASE)
    return re.sub(r"([\\\[\]<>])", r"\\\1", divided)


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
            # At its first try, or at a later one whose worker has died since.
            TaskInstance.queued_dttm.is_not(None),
            TaskInstance.pid.is_(None) | (TaskInstance.queued_dttm > TaskInstance.start_date),
        )
    )
    with session.no_autoflush:
        ended = set(session.scalars(failed))
        left = session.execute(failures_left(*this))
        failures = failure_lines([(task, value) for task, value in left if task in ended])
        waited: dict[str, list[str]] = {}
        for queue, task in session.execute(never_taken):
            waited.setdefault(str(queue), []).append(task)
    text = "\n\n".join([*failures, *absent_worker_lines(waited)])
    if text:
        dag_run.note = text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"
