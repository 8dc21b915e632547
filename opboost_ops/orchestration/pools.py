"""A pool that does not exist ends a run at once, instead of a task that waits for ever.

Airflow's scheduler never queues a task whose pool does not exist, and a task has no way to ask
which pools there are. The scheduler has: when a run starts, this listener looks the declared
pools up and leaves the missing ones in the run's configuration; the first task, which always
runs in ``default_pool``, finds them there and fails. (A run's note would be a nicer place, but
Airflow 3.3 does not hand it to tasks.)

So too where slots are too few for the tasks of horizontal learning, which wait for each other and
must all run at the same time.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from airflow.listeners import hookimpl

from opboost_ops.orchestration.lineage import PARAMETER
from opboost_ops.orchestration.listened import our_session
from opboost_ops.run.phases import ROUNDS

_KEY = "missing_pools"
_SLOTS = "too_few_slots"
_OURS = (_KEY, _SLOTS, PARAMETER)


def missing_pools(conf: Mapping[str, Any] | None) -> tuple[str, ...]:
    """The missing pools that a run's configuration names.

    Args:
        conf: The run's configuration.
    """
    return tuple(map(str, (conf or {}).get(_KEY, ())))


def too_few_slots(conf: Mapping[str, Any] | None) -> tuple[str, ...]:
    """Where a run's configuration says that slots are too few.

    Args:
        conf: The run's configuration.
    """
    return tuple(map(str, (conf or {}).get(_SLOTS, ())))


def asked_for(conf: Mapping[str, Any] | None) -> dict[str, Any]:
    """What the trigger form gave: a run's configuration without what is found here.

    A form hands on what it does not show, too.

    Args:
        conf: The run's configuration.
    """
    return {name: value for name, value in (conf or {}).items() if name not in _OURS}


def lacking(wanted: Counter[str], slots: Mapping[str, int], parallelism: int) -> list[str]:
    """Where slots are too few for tasks that must all run at the same time.

    Args:
        wanted: How many of them are in each pool.
        slots: Of each pool that there is; negative where it has no limit.
        parallelism: How many tasks a scheduler runs at once; 0 for no limit.
    """
    short = [
        f"pool {pool} has {slots[pool]} slots, and {count} are needed"
        for pool, count in sorted(wanted.items())
        if 0 <= slots.get(pool, -1) < count
    ]
    if 0 < parallelism < wanted.total():
        short.append(f"core.parallelism is {parallelism}, and {wanted.total()} is needed")
    return short


def with_missing_pools(
    conf: Mapping[str, Any] | None, missing: Sequence[str], short: Sequence[str] = ()
) -> dict[str, Any] | None:
    """A run's configuration with the missing pools in it, and with nothing stale.

    Args:
        conf: What the trigger form gave, perhaps with what an earlier attempt left.
        missing: Names of pools; none removes the entry.
        short: Where slots are too few; none removes the entry.
    """
    rest = asked_for(conf)
    if missing or short:
        found = {_KEY: list(missing), _SLOTS: list(short)}
        return {**rest, **{name: value for name, value in found.items() if value}}
    return rest if conf is not None else None


@hookimpl
def on_dag_run_running(dag_run: Any) -> None:
    """Compare a starting run's pools with those that exist.

    Args:
        dag_run: The scheduler's run, in its session.
    """
    session = our_session(dag_run)
    if session is None:
        return
    from airflow.configuration import conf as settings
    from airflow.models.pool import Pool
    from sqlalchemy import select

    dag = dag_run.dag
    with session.no_autoflush:
        rows = session.execute(select(Pool.pool, Pool.slots))
        slots = {str(name): int(count) for name, count in rows}
    missing = sorted({task.pool for task in dag.tasks} - set(slots))
    wanted = Counter(task.pool for task in dag.tasks if task.task_id.endswith(f".{ROUNDS}"))
    short = lacking(wanted, slots, settings.getint("core", "parallelism"))
    conf = with_missing_pools(dag_run.conf, missing, short)
    if conf != dag_run.conf:
        dag_run.conf = conf
