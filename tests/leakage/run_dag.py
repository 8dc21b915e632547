"""Runs a federation's training and then its scoring by `dag.test()`, whole; then each stage fails.

Its own process, so that all that Airflow prints and keeps can be searched afterwards. Writes the
runs' states by DAG, or by the stage that was made to fail, or by the party that is over its budget.
A failing run takes up what the whole one left, so that only the failing task has to be run: the
slow suite runs them from the beginning.
"""

import json
import sys
import time
from pathlib import Path

import yaml
from airflow.dag_processing.dagbag import DagBag

from opboost_ops.exchange import manifest
from opboost_ops.pipeline import catalogue
from tests.leakage.failing_stage import failing

FAILURES = json.loads(Path(sys.argv[1]).read_text())
RESULT = Path(sys.argv[2])

# dag.test() sleeps a second a round while a failure spreads downstream.
_sleep = time.sleep
time.sleep = lambda seconds: _sleep(min(seconds, 0.01))

states = {}
dags = {name: dag for name, dag in DagBag().dags.items() if not name.endswith("_admin")}
runs = {}
# A release that stands costs nothing again: a budget refuses the first run.
for path in map(Path, sys.argv[3:]):
    declared = path.read_text()
    policy = yaml.safe_load(declared)
    path.write_text(yaml.safe_dump({**policy, "all_features": {"budget": 0.001}}))
    (dag_id,) = (dag_id for dag_id in dags if dag_id.endswith("_train"))
    run = dags[dag_id].test()
    failed = [ti.task_id for ti in run.get_task_instances() if ti.state == "failed"]
    states[f"{policy['party']} over budget"] = f"{run.state} {' '.join(failed)}"
    path.write_text(declared)
for dag_id in sorted(dags, reverse=True):  # Training comes before scoring.
    whole = dags[dag_id].test()
    skipped = [ti.task_id for ti in whole.get_task_instances() if ti.state == "skipped"]
    # A DAG of which everything is skipped succeeds, too.
    states[dag_id] = " ".join([str(whole.state), *skipped])
    runs[dag_id] = manifest.run_id(dag_id, whole.run_id)
manifest.run_id = lambda dag_id, _: runs[dag_id]
# A stage that runs again takes back the verdicts on what follows from it.
homes = Path(sys.argv[3]).parents[1].glob("*/home/*/*/checked_*.json")
verdicts = {path: path.read_bytes() for path in homes}
assert verdicts
for name, (dag_id, task, party, text) in FAILURES.items():
    stage = catalogue.STAGES[name]
    catalogue.STAGES[name] = failing(stage, {party: text})
    run = dags[dag_id].partial_subset([task], include_upstream=False).test()
    failed = [ti.task_id for ti in run.get_task_instances() if ti.state == "failed"]
    states[name] = f"{run.state} {' '.join(failed)}"
    catalogue.STAGES[name] = stage
    for path, content in verdicts.items():
        path.write_bytes(content)
RESULT.write_text(json.dumps(states))
