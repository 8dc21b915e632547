"""Tasks are forked from the worker, so what it has imported costs them nothing."""

import sys

if sys.argv[1:3] == ["celery", "worker"]:
    from opboost_ops.orchestration.preload import preload

    preload()
