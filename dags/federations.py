"""A training DAG for each federation file in the folder that OPBOOST_FEDERATIONS names.

The files are read at every parse of this one by Airflow: a new file becomes a DAG by itself.
"""

import os
from pathlib import Path

from airflow.sdk import get_parsing_context

from opboost_ops.orchestration.dags import build_dags

if os.environ.get("OPBOOST_FEDERATIONS"):
    folder = Path(os.environ["OPBOOST_FEDERATIONS"])
    globals().update(build_dags(folder, get_parsing_context().dag_id))
