"""Waits in a party's own triggerer: it looks, and wakes the task when there is something to do.

What a look finds decides nothing: the task that wakes looks again, with all its checks. So a look
that fails wakes the task as well, which then says why. Only the network may fail, as while a store
or Airflow itself is away or starts again. A task that was woken and has nothing to do looks itself
from then on: a triggerer that cannot look, as without the party's site, would wake it at once.
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

#: What the event of a trigger says that did not just look to its end.
WOKEN = "woken"

#: So long a trigger looks before its task looks itself, which ends a run that has become too old.
LIFETIME = timedelta(minutes=65)

#: Seconds between two looks: a part of the run's age, within these bounds.
_PART, _SHORTEST, _LONGEST = 1 / 20, 2.0, 60.0


class StoreTrigger(BaseTrigger):
    """Looks until there is something to do.

    Args:
        look: What for; see `sensors.LOOKS`.
        arguments: Of the look. They name parties, runs and artifacts, and hold no secret.
        started: When the run began, in seconds since 1970.
    """

    def __init__(self, look: str, arguments: Mapping[str, Any], started: float) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.look = look
        self.arguments = dict(arguments)
        self.started = started

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """How Airflow keeps it between a worker and a triggerer."""
        kwargs = {"look": self.look, "arguments": self.arguments, "started": self.started}
        return f"{type(self).__module__}.{type(self).__qualname__}", kwargs

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Look until there is something to do. Airflow calls it."""
        end = time.monotonic() + LIFETIME.total_seconds()
        while time.monotonic() < end:
            if await _in_own_thread(self._something):
                yield TriggerEvent(WOKEN)  # type: ignore[no-untyped-call]
                return
            age = time.time() - self.started
            await asyncio.sleep(min(max(age * _PART, _SHORTEST), _LONGEST))
        yield TriggerEvent(None)  # type: ignore[no-untyped-call]

    def _something(self) -> bool:
        from airflow.sdk.execution_time.task_runner import RuntimeTaskInstance

        from opboost_ops.errors import OpBoostError, is_network_error
        from opboost_ops.orchestration.dags.sensors import LOOKS
        from opboost_ops.orchestration.settings import adopt_section, use_airflow_secrets

        adopt_section()
        use_airflow_secrets()
        try:
            return bool(LOOKS[self.look](RuntimeTaskInstance, **self.arguments))
        except Exception as error:
            if is_network_error(error):
                return False
            # Of a foreign error the name alone: its text may show cells.
            own = isinstance(error, OpBoostError)
            _LOG.warning("A look ended: %s", error if own else type(error).__name__)
            return True


async def _in_own_thread(work: Callable[[], bool]) -> bool:
    """Its result, of a thread of its own: a store that hangs delays no other trigger, nor an end.

    Args:
        work: What may hang; what it raises is raised here.
    """
    future: Future[bool] = Future()
    future.set_running_or_notify_cancel()

    def run() -> None:
        try:
            future.set_result(work())
        except BaseException as error:
            future.set_exception(error)

    threading.Thread(target=run, name="look", daemon=True).start()
    return await asyncio.wrap_future(future)
