"""Which runs our listeners look at: those of our own DAGs, in the scheduler's session."""

from typing import Any

from opboost_ops.orchestration.pages.airflow import TAG as TAG

#: The DAG by which people act has it besides.
ADMIN_TAG = "admin"


def by_hand(msg: str) -> bool:
    """Whether a person has set a run's state: Airflow's API server then calls listeners, too.

    Args:
        msg: What Airflow says of the change.
    """
    return "manually set" in msg


def our_session(dag_run: Any) -> Any:
    """The scheduler's session, where a run is one of ours; None otherwise.

    Args:
        dag_run: The scheduler's run, in its session.
    """
    dag = dag_run.dag
    if dag is None or TAG not in dag.tags:
        return None
    from sqlalchemy.orm import object_session

    return object_session(dag_run)
