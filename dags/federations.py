"""The DAGs of each federation file in the folder that OPBOOST_FEDERATIONS names.

The files are read at every parse of this one by Airflow: a new file becomes a DAG by itself.
OPBOOST_PARTIES names the parties whose tasks this Airflow runs; all, where it is not set.
"""

import os
from pathlib import Path

from airflow.sdk import get_parsing_context

from opboost_ops.orchestration.dags import build_dags
from opboost_ops.orchestration.halves import names_in

if os.environ.get("OPBOOST_FEDERATIONS"):
    folder = Path(os.environ["OPBOOST_FEDERATIONS"])
    parties = names_in(os.environ.get("OPBOOST_PARTIES"))
    globals().update(build_dags(folder, parties, get_parsing_context().dag_id))
