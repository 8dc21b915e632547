"""What keeps a run's tasks from ever starting ends it at once, instead of tasks that wait for ever.

Airflow's scheduler never queues a task whose pool does not exist, and a task has no way to ask
which pools there are. The scheduler has: when a run starts, this listener looks the declared
pools up and leaves the missing ones in the run's configuration; the first task, which always
runs in ``default_pool``, finds them there and fails. (A run's note would be a nicer place, but
Airflow 3.3 does not hand it to tasks.)

So too where a pool has no slot, or too few for the tasks of horizontal learning, which wait for
each other and must all run at the same time, and where no worker listens to a queue (`workers`).
"""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from airflow.listeners import hookimpl

from opboost_ops.errors import ConfigError
from opboost_ops.orchestration import workers
from opboost_ops.orchestration.lineage import PARAMETER
from opboost_ops.orchestration.listened import our_session
from opboost_ops.run.phases import ROUNDS

_KEY = "missing_pools"
_SLOTS = "too_few_slots"
_QUEUES = "unheard_queues"
_OURS = (_KEY, _SLOTS, _QUEUES, PARAMETER)


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


def unheard_queues(conf: Mapping[str, Any] | None) -> tuple[str, ...]:
    """The queues to which no worker listens, that a run's configuration names.

    Args:
        conf: The run's configuration.
    """
    return tuple(map(str, (conf or {}).get(_QUEUES, ())))


def faults(conf: Mapping[str, Any] | None) -> list[ConfigError]:
    """What keeps tasks of a run from ever starting, by its configuration.

    Args:
        conf: The run's configuration.
    """
    found: list[ConfigError] = []
    if missing := missing_pools(conf):
        found.append(
            ConfigError(
                f"The federation file names pools that do not exist: {', '.join(missing)}.",
                "Create them (`airflow pools set NAME SLOTS DESCRIPTION`, or Admin > Pools), or "
                "correct the file, and run again.",
            )
        )
    if short := too_few_slots(conf):
        found.append(
            ConfigError(
                f"There are too few slots: {'; '.join(short)}.",
                "Give more, and run again. In horizontal learning all parties train at the same "
                "time.",
            )
        )
    if unheard := unheard_queues(conf):
        found.append(
            ConfigError(
                f"No worker listens to the queue {', '.join(unheard)}.",
                "Start the party's worker, or see why it does not reach this Airflow, and run "
                "again.",
            )
        )
    return found


def asked_for(conf: Mapping[str, Any] | None) -> dict[str, Any]:
    """What the trigger form gave: a run's configuration without what is found here.

    A form hands on what it does not show, too.

    Args:
        conf: The run's configuration.
    """
    return {name: value for name, value in (conf or {}).items() if name not in _OURS}


def lacking(
    wanted: Counter[str],
    slots: Mapping[str, int],
    parallelism: int,
    used: Collection[str] = (),
) -> list[str]:
    """Where slots are too few: for tasks that must all run at the same time, or for any.

    Args:
        wanted: How many of them are in each pool.
        slots: Of each pool that there is; negative where it has no limit.
        parallelism: How many tasks a scheduler runs at once; 0 for no limit.
        used: Pools of any task.
    """
    needed = wanted | Counter(dict.fromkeys(used, 1))
    short = [
        f"pool {pool} has {slots[pool]} slots, and {count} are needed"
        for pool, count in sorted(needed.items())
        if 0 <= slots.get(pool, -1) < count
    ]
    if 0 < parallelism < wanted.total():
        short.append(f"core.parallelism is {parallelism}, and {wanted.total()} is needed")
    return short


def with_missing_pools(
    conf: Mapping[str, Any] | None,
    missing: Sequence[str],
    short: Sequence[str] = (),
    unheard: Sequence[str] = (),
) -> dict[str, Any] | None:
    """A run's configuration with the missing pools in it, and with nothing stale.

    Args:
        conf: What the trigger form gave, perhaps with what an earlier attempt left.
        missing: Names of pools; none removes the entry.
        short: Where slots are too few; none removes the entry.
        unheard: Queues without a worker; none removes the entry.
    """
    rest = asked_for(conf)
    if missing or short or unheard:
        found = {_KEY: list(missing), _SLOTS: list(short), _QUEUES: list(unheard)}
        return {**rest, **{name: value for name, value in found.items() if value}}
    return rest if conf is not None else None


@hookimpl
def on_dag_run_running(dag_run: Any) -> None:
    """Compare a starting run's pools and queues with what there is.

    Args:
        dag_run: The scheduler's run, in its session.
    """
    session = our_session(dag_run)
    if session is None:
        return
    from airflow.configuration import conf as settings
    from sqlalchemy import select

    from opboost_ops.pages.airflow_tables import Pool

    dag = dag_run.dag
    with session.no_autoflush:
        rows = session.execute(select(Pool.pool, Pool.slots))
        slots = {str(name): int(count) for name, count in rows}
        queues = {task.queue for task in dag.tasks}
        unheard = workers.unheard(session, settings.get("core", "executor"), queues)
    used = {task.pool for task in dag.tasks}
    missing = sorted(used - set(slots))
    wanted = Counter(task.pool for task in dag.tasks if task.task_id.endswith(f".{ROUNDS}"))
    short = lacking(wanted, slots, settings.getint("core", "parallelism"), used)
    conf = with_missing_pools(dag_run.conf, missing, short, unheard)
    if conf != dag_run.conf:
        dag_run.conf = conf
