"""The id of a run, by which its artifacts are named."""

import hashlib


def run_id(dag_id: str, airflow_run_id: str) -> str:
    """The run's id: path-safe, and the same after clear and retry.

    Args:
        dag_id: The DAG's id.
        airflow_run_id: Airflow's id of the run.
    """
    return hashlib.sha256(f"{dag_id}{airflow_run_id}".encode()).hexdigest()[:16]
