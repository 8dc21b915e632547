"""Tasks are forked from the worker, so what it has imported costs them nothing.

Import only: thread pools that are used before the fork do not survive it.
"""

import sys

if sys.argv[1:3] in (["celery", "worker"], ["edge", "worker"]):
    # isort: off
    # First, because it says how OpenMP's threads wait, which is read when OpenMP is loaded.
    import opboost_ops.run.runner
    import opboost_ops.quality.checks
    import great_expectations  # noqa: F401
    import lightgbm  # noqa: F401
    import pandas  # noqa: F401
    import polars  # noqa: F401
    import airflow.dag_processing.dagbag  # noqa: F401
    import opboost_ops.orchestration.dags
    import opboost_ops.run.opening  # noqa: F401
