"""A pool that does not exist ends a run at once, instead of a task that waits for ever.

Airflow's scheduler never queues a task whose pool does not exist, and a task has no way to ask
which pools there are. The scheduler has: when a run starts, this listener looks the declared
pools up and leaves the missing ones in the run's configuration; the first task, which always
runs in ``default_pool``, finds them there and fails. (A run's note would be a nicer place, but
Airflow 3.3 does not hand it to tasks.)
"""

from collections.abc import Mapping, Sequence
from typing import Any

from airflow.listeners import hookimpl

#: Every DAG of ours has it.
TAG = "opboost"

_KEY = "missing_pools"


def missing_pools(conf: Mapping[str, Any] | None) -> tuple[str, ...]:
    """The missing pools that a run's configuration names.

    Args:
        conf: The run's configuration.
    """
    return tuple(map(str, (conf or {}).get(_KEY, ())))


def with_missing_pools(
    conf: Mapping[str, Any] | None, missing: Sequence[str]
) -> dict[str, Any] | None:
    """A run's configuration with the missing pools in it, and with nothing stale.

    Args:
        conf: What the trigger form gave, perhaps with what an earlier attempt left.
        missing: Names of pools; none removes the entry.
    """
    rest = {name: value for name, value in (conf or {}).items() if name != _KEY}
    if missing:
        return {**rest, _KEY: list(missing)}
    return rest if conf is not None else None


@hookimpl
def on_dag_run_running(dag_run: Any) -> None:
    """Compare a starting run's pools with those that exist.

    Args:
        dag_run: The scheduler's run, in its session.
    """
    dag = dag_run.dag
    if dag is None or TAG not in dag.tags:
        return
    from airflow.models.pool import Pool
    from sqlalchemy import select
    from sqlalchemy.orm import object_session

    session = object_session(dag_run)
    if session is None:
        return
    with session.no_autoflush:
        known = set(session.scalars(select(Pool.pool)))
    conf = with_missing_pools(dag_run.conf, sorted({task.pool for task in dag.tasks} - known))
    if conf != dag_run.conf:
        dag_run.conf = conf
