"""What the one DAG file imports: the DAGs of this process's federation files.

So that file may be copied into any folder of DAGs, and nothing in it goes stale.
"""

import gc
import os
from pathlib import Path

from airflow.sdk import DAG, get_parsing_context

from opboost_ops.orchestration.dags import build_dags
from opboost_ops.orchestration.halves import names_in
from opboost_ops.orchestration.kept_dags import KeptDags, of_a_processor
from opboost_ops.orchestration.settings import adopt_section


def federation_dags() -> dict[str, DAG]:
    """The DAGs of each federation file, by id; the files are read at every call.

    ``OPBOOST_FEDERATIONS`` names their folder, none of them where it is not set, and
    ``OPBOOST_PARTIES`` the parties whose tasks this Airflow runs: all, where it is not set.
    """
    adopt_section()
    folder = os.environ.get("OPBOOST_FEDERATIONS")
    if not folder:
        return {}
    parties = names_in(os.environ.get("OPBOOST_PARTIES"))
    files = Path(folder)
    only = get_parsing_context().dag_id
    kept = KeptDags(parties) if only is None and of_a_processor() else None
    # All that is made stays: to look through it again and again would be most of a parse.
    collects = gc.isenabled()
    gc.disable()
    try:
        return build_dags(files, parties, only, kept)
    finally:
        if collects:
            gc.enable()
