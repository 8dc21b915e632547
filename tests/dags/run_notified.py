"""Runs a federation's DAG by `dag.test()`, first over a party's budget, then wrongly configured.

Its own process, because `dag.test()` wants Airflow's database and environment. Writes the runs'
states by what was meant to happen.
"""

import json
import os
import sys
import time
from pathlib import Path

from airflow.dag_processing.dagbag import DagBag

# dag.test() sleeps a second a round while a failure spreads downstream.
_sleep = time.sleep
time.sleep = lambda seconds: _sleep(min(seconds, 0.01))

(dag,) = DagBag().dags.values()


def state() -> str:
    run = dag.test()
    failed = [ti.task_id for ti in run.get_task_instances() if ti.state == "failed"]
    return " ".join([str(run.state), *failed])


states = {"budget": state()}
os.environ["OPBOOST_NOTIFIERS"] = "notifiers:ABSENT"
states["wrong"] = state()
Path(sys.argv[1]).write_text(json.dumps(states))
