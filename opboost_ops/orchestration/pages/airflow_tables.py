"""Airflow's own tables: nothing else here names their classes, which Airflow may move or change.

Import a class within the function that needs it. docs/adr/0021-what-airflow-does-not-promise.md
says which are read, by whom, and why nothing that Airflow promises would do.
"""

from importlib import import_module
from typing import Any

_PLACES = {
    "DagModel": "airflow.models.dag",
    "DagRun": "airflow.models.dagrun",
    "DagTag": "airflow.models.dag",
    "Job": "airflow.jobs.job",
    "Log": "airflow.models.log",
    "Pool": "airflow.models.pool",
    "SerializedDagModel": "airflow.models.serialized_dag",
    "TaskInstance": "airflow.models.taskinstance",
    "XComModel": "airflow.models.xcom",
    "create_session": "airflow.utils.session",
}


def __getattr__(name: str) -> Any:
    if name not in _PLACES:
        raise AttributeError(name)
    return getattr(import_module(_PLACES[name]), name)
