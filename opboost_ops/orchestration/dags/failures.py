"""A failed task in plain words: wrapped lines in its log, and an XCom for note and pages.

Airflow prints every exception with its traceback, which says nothing to who runs a federation: all
frames are Airflow's and this software's own. What a task of ours raises is told by its lines.
"""

import json
import logging
import sys
import textwrap
from collections.abc import Callable
from functools import wraps
from typing import Any, ParamSpec, TypeVar

from airflow.sdk import get_current_context
from airflow.sdk.exceptions import AirflowFailException

from opboost_ops.orchestration.pages.airflow import FAILURE

#: Most bytes that a task may leave in XCom.
XCOM_LIMIT = 2048

_WIDTH = 100

_LOG = logging.getLogger("opboost_ops")

_P = ParamSpec("_P")
_R = TypeVar("_R")


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
            _tell(error)
            raise

    return task


def _tell(error: AirflowFailException) -> None:
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
    if _plain not in processors:
        processors.insert(0, _plain)


def _plain(logger: Any, method: str, event: Any) -> Any:  # noqa: ARG001
    info = event.get("exc_info")
    error = sys.exc_info()[1] if info is True else info
    if isinstance(error, AirflowFailException):
        del event["exc_info"]
        event["event"] = "The task has failed; the lines above say why, and what to do."
    return event
