"""Imports what tasks need into the worker that forks them, or the scheduler of a LocalExecutor."""

import os
import sys

_LOCAL = os.environ.get("AIRFLOW__CORE__EXECUTOR") == "LocalExecutor"

if sys.argv[1:3] == ["celery", "worker"] or (_LOCAL and "scheduler" in sys.argv):
    from opboost_ops.orchestration.deployment.preload import preload

    preload()
