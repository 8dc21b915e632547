"""Runs a federation's training DAG by `dag.test()`, and writes what became of its tasks.

A process of its own, so that all that Airflow prints and keeps can be searched afterwards.
"""

import json
import sys
import time
from pathlib import Path

from airflow.dag_processing.dagbag import DagBag
from airflow.models.xcom import XComModel
from airflow.utils.session import create_session
from sqlalchemy import select

# dag.test() sleeps a second a round.
_sleep = time.sleep
time.sleep = lambda seconds: _sleep(min(seconds, 0.01))

dag = next(dag for dag in DagBag().dags.values() if dag.dag_id.endswith("_train"))
run = dag.test()
states = [(ti.task_id, ti.map_index, str(ti.state)) for ti in run.get_task_instances()]
labels = {f"{ti.task_id} {ti.map_index}": ti.rendered_map_index for ti in run.get_task_instances()}
with create_session() as session:
    found = session.execute(select(XComModel.task_id, XComModel.key, XComModel.value)).all()
told = [(task, key, value) for task, key, value in found]
result = {"state": str(run.state), "tasks": states, "labels": labels, "xcom": told}
Path(sys.argv[1]).write_text(json.dumps(result))
