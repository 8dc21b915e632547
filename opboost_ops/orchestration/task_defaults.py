"""What all tasks of a federation have by default: retries, times, whom a failure is told to."""

from datetime import timedelta
from typing import Any

from opboost_ops.config.federation import Federation
from opboost_ops.orchestration.notifications import CALLBACKS

#: Only network faults are raised as retryable; `tasks.execute` fails everything else at once.
_RETRIES = {
    "retries": 3,
    "retry_delay": timedelta(seconds=15),
    "retry_exponential_backoff": 2,
    "max_retry_delay": timedelta(minutes=10),
    **CALLBACKS,
}


def timeout(federation: Federation) -> timedelta:
    """How long a run may take.

    Args:
        federation: What its file says.
    """
    return timedelta(hours=federation.schedule.timeout_hours)


def task_defaults(federation: Federation) -> dict[str, Any]:
    """Default arguments of a federation's tasks.

    Args:
        federation: What its file says.
    """
    return {**_RETRIES, "execution_timeout": timeout(federation)}
