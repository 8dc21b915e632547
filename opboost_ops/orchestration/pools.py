"""A pool that does not exist ends a run at once, instead of a task that waits for ever.

Airflow's scheduler never queues a task whose pool does not exist, and a task has no way to ask
which pools there are. The scheduler has: when a run starts, this listener looks the declared
pools up and leaves the missing ones in the run's note, where people see them; the first task,
which always runs in ``default_pool``, reads the note and fails.
"""

from typing import Any

from airflow.listeners import hookimpl

#: Every DAG of ours has it.
TAG = "opboost"

_MARK = "Pools that do not exist: "


def missing_pools(note: str | None) -> tuple[str, ...]:
    """The missing pools that a run's note names.

    Args:
        note: The run's note, of which one line may be the listener's.
    """
    for line in (note or "").splitlines():
        if line.startswith(_MARK):
            return tuple(line.removeprefix(_MARK).split(", "))
    return ()


def with_missing_pools(note: str | None, missing: list[str]) -> str | None:
    """A run's note with the missing pools in it, and with nothing stale.

    Args:
        note: What people, or an earlier attempt, wrote.
        missing: Names of pools; none removes the line.
    """
    lines = [line for line in (note or "").splitlines() if not line.startswith(_MARK)]
    if missing:
        lines.append(_MARK + ", ".join(missing))
    return "\n".join(lines) or None


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
    missing = sorted({task.pool for task in dag.tasks} - known)
    note = with_missing_pools(dag_run.note, missing)
    if note != dag_run.note:
        dag_run.note = note or ""
