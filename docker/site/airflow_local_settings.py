"""Tasks are forked from the worker, so what it has imported costs them nothing.

Import only: thread pools that are used before the fork do not survive it.
"""

import sys

if sys.argv[1:3] == ["edge", "worker"]:
    import great_expectations  # noqa: F401
    import lightgbm  # noqa: F401
    import pandas  # noqa: F401
    import polars  # noqa: F401

    import opboost_ops.quality.checks
    import opboost_ops.run.runner  # noqa: F401
