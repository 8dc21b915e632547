"""What the scheduler does about a run by which a person acts at one party.

The tasks of other parties are skipped before they are queued, so that none of their workers is
needed. After a party has stopped taking part, the federation's other DAGs are paused: their runs
would fail at that party, one after the other.
"""

from typing import Any

from airflow.listeners import hookimpl

from opboost_ops.orchestration.our_runs import ADMIN_TAG, our_session

_PAUSED = ("train", "score", "tables", "join")


@hookimpl
def on_dag_run_running(dag_run: Any) -> None:
    """Skip the tasks of parties of which nothing is asked.

    Args:
        dag_run: The scheduler's run, in its session.
    """
    session = _session(dag_run)
    if session is None:
        return
    chosen = f"{(dag_run.conf or {}).get('party')}_act"
    instances = dag_run.get_task_instances(session=session)
    if any(ti.task_id == chosen for ti in instances):
        for ti in instances:
            if ti.task_id != chosen and ti.state is None:
                ti.set_state("skipped", session=session)


@hookimpl
def on_dag_run_success(dag_run: Any) -> None:
    """Pause the federation's DAGs, where a party has stopped taking part.

    Args:
        dag_run: The scheduler's run, in its session.
    """
    session = _session(dag_run)
    if session is None or (dag_run.conf or {}).get("act") != "stop":
        return
    from sqlalchemy import update

    from opboost_ops.pages.airflow_tables import DagModel

    name = dag_run.dag_id.rpartition("_")[0]
    dags = [f"{name}_{what}" for what in _PAUSED]
    session.execute(update(DagModel).where(DagModel.dag_id.in_(dags)).values(is_paused=True))


def _session(dag_run: Any) -> Any:
    session = our_session(dag_run)
    return session if session is not None and ADMIN_TAG in dag_run.dag.tags else None
