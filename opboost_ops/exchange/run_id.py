"""The id of a run, by which its artifacts are named."""

import hashlib

from opboost_ops.exchange.manifest import is_run_id

#: How Airflow's ids begin of runs that were opened in another Airflow; the run's own id follows.
JOINED = "joined__"


def run_id(dag_id: str, airflow_run_id: str) -> str:
    """The run's id: path-safe, and the same after clear and retry.

    Args:
        dag_id: The DAG's id.
        airflow_run_id: Airflow's id of the run.
    """
    return joined_run(airflow_run_id) or own_run_id(dag_id, airflow_run_id)


def own_run_id(dag_id: str, airflow_run_id: str) -> str:
    """The id of a run that this Airflow began, whatever run its Airflow id names.

    Args:
        dag_id: The DAG's id.
        airflow_run_id: Airflow's id of the run.
    """
    # No id has an end of line: no two pairs give the same text.
    return hashlib.sha256(f"{dag_id}\n{airflow_run_id}".encode()).hexdigest()[:16]


def joined_run(airflow_run_id: str) -> str | None:
    """The run that Airflow's id names, if it was opened in another Airflow.

    Args:
        airflow_run_id: Airflow's id of the run.
    """
    run = airflow_run_id.removeprefix(JOINED)
    return run if airflow_run_id.startswith(JOINED) and is_run_id(run) else None
