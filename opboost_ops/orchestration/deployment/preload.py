"""Imports of an Airflow process before it forks tasks, so that each of them has them for nothing.

`airflow_local_settings.py` of schedulers and workers calls `preload`. Beyond what
`pipeline.runner.fork_server` does it only imports, as threads do not survive a fork.
"""

import gc
from contextlib import suppress
from importlib import import_module

from opboost_ops.pipeline.runner import fork_server

#: What a task comes by in its own process, beside what `pipeline.runner.fork_server` has.
OURS = ("opboost_ops.orchestration.dags.factory", "opboost_ops.orchestration.dags.tasks")

#: What Airflow imports in each task once more; another release of it may have other names.
AIRFLOWS = (
    "airflow.dag_processing.bundles.local",
    "airflow.dag_processing.dagbag",
    "airflow.sdk.definitions.asset.metadata",
    "airflow.sdk.execution_time.task_runner",
    "airflow.sdk.execution_time.timeout",
    "jinja2.ext",
)


def preload() -> None:
    """Import all of it, without collections, and keep it out of them.

    A collection in a task would look through all that was imported, and copy the memory it is in.
    """
    gc.disable()
    fork_server.preload()
    for name in OURS:
        import_module(name)
    for name in AIRFLOWS:
        with suppress(ImportError):
            import_module(name)
    gc.freeze()
    gc.enable()
