"""What a process of Airflow imports before it forks tasks, so that each of them has it for nothing.

`airflow_local_settings.py` of schedulers and workers calls `preload`. It imports, and makes
the settings of Great Expectations; beyond that it uses nothing, as threads do not survive a fork.
"""

import gc
from contextlib import suppress
from importlib import import_module

#: What a task comes by in its own process. The runner is first: it says how OpenMP's threads wait,
#: which is read when OpenMP is loaded.
OURS = (
    "opboost_ops.run.runner",
    "opboost_ops.quality.checks",
    "opboost_ops.run.form_values",
    "opboost_ops.run.opening",
    "opboost_ops.orchestration.federations",
    "opboost_ops.orchestration.tasks",
)

#: What these import when it is first needed.
THEIRS = (
    "great_expectations",
    "lightgbm",
    "pandas",
    "polars",
    "cryptography.hazmat.backends.openssl.backend",
    "pyarrow.vendored.version",
)

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
    """Import all of it, and keep it out of collections.

    A collection in a task would look through all that was imported, and copy the memory it is in.
    """
    for name in OURS:
        import_module(name)
    for name in THEIRS:
        # A system library may be missing: the tasks that need it say so, others go on.
        with suppress(OSError):
            import_module(name)
    for name in AIRFLOWS:
        with suppress(ImportError):
            import_module(name)
    from opboost_ops.quality.validation import context

    # A judgement would start a thread, of a progress bar that is not shown; its settings do not.
    context()
    gc.freeze()
