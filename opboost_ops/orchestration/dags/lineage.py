"""OpBoost tasks emit no OpenLineage events; other DAGs are unaffected.

OpenLineage's listener runs in each task's process and sends task arguments, source code and
tracebacks to a remote collector, past every party's policy, ledger and checks. The provider lets a
task or DAG opt out by a parameter. The parameter is always set, because the provider may be
installed only in the scheduler, or later.

If the installed provider would emit events nevertheless, no DAG is built.
"""

from collections.abc import Iterable
from functools import cache
from importlib.util import find_spec
from typing import Any

from opboost_ops.errors import ConfigError

#: The provider's name of the parameter, from 2.19.0 on. Repeated here because the provider may be
#: absent; a test compares the two.
PARAMETER = "_openlineage_emission_policy"

_NO_EVENTS = {"emit": False}

_REMEDY = (
    "Install apache-airflow-providers-openlineage 2.19 or later and no `locked` rule of "
    "[openlineage] emission_policy that matches, or set [openlineage] disabled to True."
)


def disable_lineage(dag: Any, tasks: Iterable[Any] | None = None) -> None:
    """Opt a DAG, or some of its tasks, out of OpenLineage.

    Args:
        dag: The DAG.
        tasks: OpBoost's tasks in a handwritten DAG, whose own events stay on. By default the DAG
            and all its tasks are opted out.

    Raises:
        ConfigError: The installed OpenLineage provider would emit events of them.
    """
    ours = list(dag.tasks if tasks is None else tasks)
    mark(*ours, *([dag] if tasks is None else []))
    if not _emits_events():
        return
    if not _supports_opt_out():
        raise ConfigError("This OpenLineage provider cannot exclude single DAGs.", _REMEDY)
    from airflow.providers.openlineage.utils.emission_policy import (
        resolve_dag_emission_policy,
        resolve_task_emission_policy,
    )

    # One task represents all of them: rules differ by operator and DAG. Locking a single task by
    # its id is a deliberate choice.
    task_emits = any(resolve_task_emission_policy(t, dag.dag_id, t.task_id).emit for t in ours[:1])
    if task_emits or (tasks is None and resolve_dag_emission_policy(dag.dag_id, dag).emit):
        raise ConfigError("OpenLineage would send events of this federation's tasks.", _REMEDY)


def mark(*things: Any) -> None:
    """Set the provider's opt-out parameter.

    Args:
        things: Tasks, and DAGs; a DAG's own parameter does not cover its tasks.
    """
    from airflow.sdk import Param

    # A constant: the trigger form does not show it, and no run's configuration overrides it.
    opt_out = Param(_NO_EVENTS, const=_NO_EVENTS)
    for thing in things:
        thing.params[PARAMETER] = opt_out


@cache
def _emits_events() -> bool:
    """True if an OpenLineage provider is installed and enabled."""
    if find_spec("airflow.providers.openlineage") is None:
        return False
    from airflow.providers.openlineage import conf

    if conf.is_disabled():
        return False
    # Before 2.19, selective mode emits nothing without an explicit opt-in.
    return _supports_opt_out() or not conf.selective_enable()


@cache
def _supports_opt_out() -> bool:
    try:
        return find_spec("airflow.providers.openlineage.api.emission_policy") is not None
    except ModuleNotFoundError:
        return False
