"""Our tasks leave themselves out of OpenLineage; everybody else's lineage stays on.

Its listener runs in each task's process and sends to a collector elsewhere: tasks' arguments and
source, and tracebacks. None of it passes a party's policy, its ledger or a check. The provider lets
a task and a DAG say that no event is to be made of them, by a parameter. It is set whether or not
the provider is here: it may be in the scheduler alone, or come later.

Where the provider is here and would send all the same, no DAG of ours is made.
"""

from collections.abc import Iterable
from functools import cache
from importlib.util import find_spec
from typing import Any

from opboost_ops.errors import ConfigError

#: The provider's own name of it, from 2.19.0 on. It is written here, since the provider may be
#: absent; a test holds it against the provider's.
PARAMETER = "_openlineage_emission_policy"

_NOTHING = {"emit": False}

_REMEDY = (
    "Install apache-airflow-providers-openlineage 2.19 or later and no `locked` rule of "
    "[openlineage] emission_policy that matches, or set [openlineage] disabled to True."
)


def leave_out(dag: Any, tasks: Iterable[Any] | None = None) -> None:
    """Let nothing of a DAG of ours, or of our tasks in somebody else's, become lineage.

    Args:
        dag: The DAG.
        tasks: Ours alone, in a DAG of somebody else's, whose own events stay; all and the DAG's own
            events when absent.

    Raises:
        ConfigError: An OpenLineage provider that is here would send events of them.
    """
    ours = list(dag.tasks if tasks is None else tasks)
    mark(*ours, *([dag] if tasks is None else []))
    if not _sends():
        return
    if not _listens():
        raise ConfigError("This OpenLineage provider cannot leave out single DAGs.", _REMEDY)
    from airflow.providers.openlineage.utils.emission_policy import (
        resolve_dag_emission_policy,
        resolve_task_emission_policy,
    )

    # One task stands for all of them: rules differ by operator and DAG. Anyone who locks a single
    # one of our tasks by its id means to.
    sent = any(resolve_task_emission_policy(t, dag.dag_id, t.task_id).emit for t in ours[:1])
    if sent or (tasks is None and resolve_dag_emission_policy(dag.dag_id, dag).emit):
        raise ConfigError("OpenLineage would send events of this federation's tasks.", _REMEDY)


def mark(*things: Any) -> None:
    """Let the provider, if there is one that can, make no events of them.

    Args:
        things: DAGs, of their own events alone, and tasks.
    """
    from airflow.sdk import Param

    # A constant: the trigger form does not show it, and no run's configuration changes it.
    nothing = Param(_NOTHING, const=_NOTHING)
    for thing in things:
        thing.params[PARAMETER] = nothing


@cache
def _sends() -> bool:
    """True if an OpenLineage provider is here and on."""
    if find_spec("airflow.providers.openlineage") is None:
        return False
    from airflow.providers.openlineage import conf

    if conf.is_disabled():
        return False
    # Before 2.19, in this mode nothing is sent of what does not ask for it.
    return _listens() or not conf.selective_enable()


@cache
def _listens() -> bool:
    try:
        return find_spec("airflow.providers.openlineage.api.emission_policy") is not None
    except ModuleNotFoundError:
        return False
