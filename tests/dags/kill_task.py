"""Runs the stages of one Airflow task, and is killed in the last one, when its work is done.

Arguments: DAG, its run, federation, label holder, party, and the stages, separated by commas. What
the stages before have left in XCom is printed.
"""

import json
import os
import signal
import sys
from types import SimpleNamespace
from typing import Any

from opboost_ops.orchestration.dags import tasks
from opboost_ops.pipeline import catalogue
from opboost_ops.pipeline.stage import Context, Outcome


def main() -> None:
    dag, run, federation, label_holder, party, names = sys.argv[1:]
    stages = names.split(",")
    work = catalogue.STAGES[stages[-1]]

    def push(key: str, value: Any) -> None:
        sys.stdout.write(json.dumps({key: value}) + "\n")

    def killed(context: Context) -> Outcome:
        work(context)
        sys.stdout.flush()
        os.kill(os.getpid(), signal.SIGKILL)
        raise AssertionError

    catalogue.STAGES[stages[-1]] = killed
    context = {
        "dag_run": SimpleNamespace(dag_id=dag, run_id=run, conf=None),
        "ti": SimpleNamespace(xcom_push=push),
    }
    vars(tasks)["get_current_context"] = lambda: context
    tasks.run_stages(party, stages, federation, label_holder)


main()
