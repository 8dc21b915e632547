"""The DAGs of federation files, for a DAG file to hand over to Airflow.

The file that comes with this package may be copied into any folder of DAGs. Where many federations
share an Airflow, one such file for each lets Airflow parse them apart.

Example:
    globals().update(federation_dags("/srv/credit/federation.yaml"))
"""

import gc
import os
from pathlib import Path

from airflow.sdk import DAG, get_parsing_context

from opboost_ops.orchestration.dags.factory import build_dags
from opboost_ops.orchestration.dags.party_dags import names_in
from opboost_ops.orchestration.settings import adopt_section


def federation_dags(place: str | Path | None = None) -> dict[str, DAG]:
    """The DAGs of federation files, by id; the files are read at every call.

    Args:
        place: A federation file or a folder of them; what ``OPBOOST_FEDERATIONS`` names when
            absent, and no DAG where that is not set. ``OPBOOST_PARTIES`` names the parties whose
            tasks this Airflow runs: all, where it is not set.
    """
    adopt_section()
    place = place or os.environ.get("OPBOOST_FEDERATIONS")
    if not place:
        return {}
    parties = names_in(os.environ.get("OPBOOST_PARTIES"))
    # All that is made stays: to look through it again and again would be most of a parse.
    collects = gc.isenabled()
    gc.disable()
    try:
        return build_dags(Path(place), parties, get_parsing_context().dag_id)
    finally:
        if collects:
            gc.enable()
