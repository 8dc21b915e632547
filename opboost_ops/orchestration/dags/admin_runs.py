"""Skips the tasks of other parties in a run by which a person acts at one party.

The scheduler does so before they are queued, so that none of their workers is needed. It does
nothing else: an action happens in its party's own task, which checks the policy and writes the
audit entry, and whatever follows from it is read from that party's state.
"""

from typing import Any

from airflow.listeners import hookimpl

from opboost_ops.orchestration.dags.our_runs import ADMIN_TAG, our_session


@hookimpl
def on_dag_run_running(dag_run: Any) -> None:
    """Skip the tasks of parties of which nothing is requested.

    Args:
        dag_run: The scheduler's run, in its session.
    """
    session = our_session(dag_run)
    if session is None or ADMIN_TAG not in dag_run.dag.tags:
        return
    chosen = f"{(dag_run.conf or {}).get('party')}_act"
    instances = dag_run.get_task_instances(session=session)
    if any(ti.task_id == chosen for ti in instances):
        for ti in instances:
            if ti.task_id != chosen and ti.state is None:
                ti.set_state("skipped", session=session)
