"""The trigger by which a party's own triggerer polls, and resumes a task that has work to do.

The poll's result decides nothing: the resumed task evaluates the condition again, with all its
checks. A poll that fails therefore resumes the task as well, and the task reports the error. Only
network failures are ignored, as when the store or Airflow restarts. A task that was resumed without
work polls by itself from then on: otherwise a triggerer that cannot poll, as without the party's
site, would resume it at once, again and again.
"""

import asyncio
import logging
import threading
import time
from collections.abc import AsyncIterator, Callable, Mapping
from concurrent.futures import Future
from datetime import timedelta
from typing import Any

from airflow.triggers.base import BaseTrigger, TriggerEvent

_LOG = logging.getLogger("opboost_ops")

#: Payload of the event that resumes a task before the trigger's lifetime ends.
WOKEN = "woken"

#: After this time the task itself checks, and ends a run that has become too old.
LIFETIME = timedelta(minutes=65)

#: Pause between two polls: a fraction of the run's age, and its bounds in seconds.
_AGE_FRACTION, _MIN_PAUSE, _MAX_PAUSE = 1 / 20, 2.0, 60.0


def pause(age: float, minimum: float) -> float:
    """Return the seconds until the next poll.

    Args:
        age: Age of the run, in seconds.
        minimum: Minimum of the pause, in seconds.
    """
    return min(max(age * _AGE_FRACTION, minimum), _MAX_PAUSE)


class StoreTrigger(BaseTrigger):
    """Polls until a condition is met.

    Args:
        condition: Name of the condition in `sensors.CONDITIONS`.
        arguments: The condition's arguments: parties, runs and artifacts, never a secret.
        started: When the run began, in seconds since 1970.
    """

    def __init__(self, condition: str, arguments: Mapping[str, Any], started: float) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.condition = condition
        self.arguments = dict(arguments)
        self.started = started

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """Return the class path and arguments that Airflow stores. Called by Airflow."""
        kwargs = {
            "condition": self.condition,
            "arguments": self.arguments,
            "started": self.started,
        }
        return f"{type(self).__module__}.{type(self).__qualname__}", kwargs

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Poll until the condition is met. Called by Airflow."""
        end = time.monotonic() + LIFETIME.total_seconds()
        while time.monotonic() < end:
            if await _in_own_thread(self._poll):
                yield TriggerEvent(WOKEN)  # type: ignore[no-untyped-call]
                return
            await asyncio.sleep(pause(time.time() - self.started, _MIN_PAUSE))
        yield TriggerEvent(None)  # type: ignore[no-untyped-call]

    def _poll(self) -> bool:
        from airflow.sdk.execution_time.task_runner import RuntimeTaskInstance

        from opboost_ops.errors import OpBoostError, is_network_error
        from opboost_ops.orchestration.dags.sensors import CONDITIONS
        from opboost_ops.orchestration.settings import adopt_section, use_airflow_secrets

        adopt_section()
        use_airflow_secrets()
        try:
            return bool(CONDITIONS[self.condition](RuntimeTaskInstance, **self.arguments))
        except Exception as error:
            if is_network_error(error):
                return False
            # Log only the type of a foreign error: its text may contain cells.
            own = isinstance(error, OpBoostError)
            _LOG.warning("A poll failed: %s", error if own else type(error).__name__)
            return True


async def _in_own_thread(work: Callable[[], bool]) -> bool:
    """Return or raise the result of ``work``, run in a new thread.

    A store that hangs then delays neither other triggers nor the triggerer's exit.
    """
    future: Future[bool] = Future()
    future.set_running_or_notify_cancel()

    def run() -> None:
        try:
            future.set_result(work())
        except BaseException as error:
            future.set_exception(error)

    threading.Thread(target=run, name="poll", daemon=True).start()
    return await asyncio.wrap_future(future)
