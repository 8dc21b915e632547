"""Airflow's own tables, whose classes are named only here because Airflow may change them.

Import a class inside the function that needs it. docs/adr/0021-what-airflow-does-not-promise.md
lists who reads which table, and why no stable interface suffices.
"""

from importlib import import_module
from typing import Any

_MODULES = {
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
    if name not in _MODULES:
        raise AttributeError(name)
    return getattr(import_module(_MODULES[name]), name)
