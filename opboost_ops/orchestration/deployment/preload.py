"""Preloads modules in an Airflow process before it forks tasks, so that tasks need not import them.

`airflow_local_settings.py` of schedulers and workers calls `preload`. It only imports, apart from
`pipeline.runner.fork_server`, because threads do not survive a fork.
"""

import gc
from contextlib import suppress
from importlib import import_module

from opboost_ops.pipeline.runner import fork_server

#: Modules that a task imports, in addition to those that `pipeline.runner.fork_server` preloads.
OURS = ("opboost_ops.orchestration.dags.factory", "opboost_ops.orchestration.dags.tasks")

#: Airflow's modules that each task would import; names may change with Airflow.
AIRFLOWS = (
    "airflow.dag_processing.bundles.local",
    "airflow.dag_processing.dagbag",
    "airflow.sdk.definitions.asset.metadata",
    "airflow.sdk.execution_time.task_runner",
    "airflow.sdk.execution_time.timeout",
    "jinja2.ext",
)


def preload() -> None:
    """Import the modules and exclude them from garbage collection.

    A collection in a task would traverse all imported objects, and thereby copy their memory.
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
