"""Queues to which no worker listens, as far as the scheduler can know it.

Edge workers report to its database, so it knows when one was last heard of. One that was heard of a
short while ago may only be starting anew, and stops no run. Celery's workers can only be asked
over the broker, and one that is busy may not answer: there a missing worker shows on the run's page
while its first task waits, and in the run's note after `[scheduler] task_queued_timeout`.
"""

from collections.abc import Collection
from datetime import UTC, datetime, timedelta
from typing import Any

#: For so long a worker may be away, as while it is started anew.
_AWAY = timedelta(minutes=10)


def unheard(session: Any, executors: str, queues: Collection[str]) -> list[str]:
    """Queues of which no worker was heard for some time.

    Args:
        session: The scheduler's.
        executors: `[core] executor`; the first one runs our tasks.
        queues: Of a run's tasks.
    """
    if not executors.split(",")[0].strip().endswith("EdgeExecutor"):
        return []
    from sqlalchemy import select

    from opboost_ops.pages.airflow_tables import EdgeWorkerModel as Row

    heard: set[str] = set()
    since = datetime.now(UTC) - _AWAY
    for worker in session.scalars(select(Row).where(Row.last_update >= since)):
        if worker.concurrency == 0:
            continue
        # A worker without queues takes from all.
        heard |= set(worker.queues or queues)
    return sorted(set(queues) - heard)
