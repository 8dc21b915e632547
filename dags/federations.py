"""A training DAG for each federation file in the folder that OPBOOST_FEDERATIONS names.

The files are read at every parse of this one by Airflow: a new file becomes a DAG by itself.
"""

import os
from pathlib import Path

from opboost_ops.orchestration.dags import build_dags

if os.environ.get("OPBOOST_FEDERATIONS"):
    globals().update(build_dags(Path(os.environ["OPBOOST_FEDERATIONS"])))
