"""The same search after runs on a real Airflow: its logs, its database, its XCom."""

import json
import os
import time
from pathlib import Path
from typing import get_args

import pytest

from opboost_ops.config.federation import Purpose
from opboost_ops.config.loading import load_federation
from opboost_ops.orchestration.deployment.client import Client
from opboost_ops.orchestration.deployment.standalone import Standalone
from opboost_ops.pipeline.catalogue import STAGES
from opboost_ops.pipeline.phases import stages_by_task
from tests.leakage.canaries import NAME, PARTIES, plant
from tests.leakage.failing_stage import HORIZONTAL

ROOT = Path(__file__).parents[2]

#: Stages of the scheduler's children fail as a file says that is read at every call.
_PATCH = """
import os, sys

if "opboost_ops.orchestration.deployment.components" in sys.orig_argv:
    sys.path.insert(0, os.environ["TEST_ROOT"])
    import json
    from opboost_ops.pipeline import catalogue
    from tests.leakage.failing_stage import failing

    class Now:
        def __init__(self, stage):
            self.stage = stage

        def get(self, party):
            plan = json.load(open(os.environ["TEST_FAILURE"]))
            return plan["text"] if [plan["stage"], plan["party"]] == [self.stage, party] else None

    for name, stage in catalogue.STAGES.items():
        catalogue.STAGES[name] = failing(stage, Now(name))
"""


@pytest.mark.slow
def test_on_a_real_scheduler_whole_and_failing_in_each_stage(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    canaries = plant(tmp_path / "parties")
    patch = tmp_path / "patch"
    patch.mkdir()
    (patch / "sitecustomize.py").write_text(_PATCH)
    failure = patch / "failure.json"
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(patch), str(ROOT / "docs" / "examples")]))
    monkeypatch.setenv("OPBOOST_NOTIFIERS", "notifiers:NOTIFIERS")
    monkeypatch.setenv("NOTIFICATIONS_FILE", str(tmp_path / "airflow" / "told.jsonl"))
    monkeypatch.setenv("TEST_ROOT", str(ROOT))
    monkeypatch.setenv("TEST_FAILURE", str(failure))
    federation = load_federation(canaries.federation)
    values = {party: canaries.one_of_each(party) for party in PARTIES}
    purposes: tuple[Purpose, ...] = get_args(Purpose)
    stages = {f"{NAME}_{purpose}": stages_by_task(federation, purpose) for purpose in purposes}
    # The last stage of each party in each DAG: errors are handled by the same code in all tasks,
    # and the search beside it makes every stage fail.
    last = {
        (dag, task.partition("_")[0]): (task, names[-1])
        for dag, tasks in stages.items()
        for task, names in tasks.items()
    }
    trained = {name for names in stages[f"{NAME}_train"].values() for name in names}
    # Every stage of a feature holder's scoring is one of its training, too, and fails there.
    failures = {
        (party, name): (dag, task)
        for (dag, party), (task, name) in last.items()
        if dag == f"{NAME}_train" or name not in trained
    }
    messages = {}
    with Standalone(tmp_path / "airflow", canaries.root, canaries.sites) as airflow:
        client = airflow.client()
        while not all(client.has_dag(f"{NAME}_{purpose}") for purpose in ("train", "score")):
            airflow.check()
        failure.write_text(json.dumps({"stage": "", "party": "", "text": ""}))
        whole = {
            dag: ended(client, dag, client.trigger(dag), "success")
            for dag in (f"{NAME}_train", f"{NAME}_score")
        }
        summaries = [
            client.summary(dag, run, task["task_id"], stage)
            for dag, (run, _) in whole.items()
            for task in client.tasks(dag, run)
            for stage in (*stages[dag].get(task["task_id"], ())[:-1], "return_value")
        ]
        for (party, name), (dag, task) in failures.items():
            plan = {"stage": name, "party": party, "text": values[party]}
            failure.write_text(json.dumps(plan))
            run, failed = ended(client, dag, client.trigger(dag), "failed")
            assert failed == {task: "failed"}
            message = messages[party, name] = client.error(dag, run, task, 1)
            words = (
                f"{name} at {party} failed unexpectedly (ComputeError)",
                f"The table of {party} cannot be used in this run",
                f"does not have enough usable common rows at {party}",
            )
            assert any(text in message for text in words)
        # Callbacks run after Airflow has said how the task ended.
        told, deadline = tmp_path / "airflow" / "told.jsonl", time.monotonic() + 30
        # A run that fails in its last stage has judged its model, which is the champion's again.
        expected = {
            ("champion_changed", "register"),
            ("model_kept", "register"),
            *(("failure", name) for _, name in failures),
        }
        events = set()
        while events != expected and time.monotonic() < deadline:
            time.sleep(0.1)
            entries = map(json.loads, told.read_text().splitlines())
            events = {(entry["event"], entry["stage"]) for entry in entries}
    failure.unlink()
    ran = {s for dag, (_, done) in whole.items() for t in done for s in stages[dag].get(t, [])}
    assert ran == set(STAGES) - HORIZONTAL
    assert {dag for dag, _ in failures.values()} == set(whole)
    assert {party for party, _ in failures} == set(PARTIES)
    assert all(len(json.dumps(summary)) < 2048 for summary in summaries)
    assert list((tmp_path / "airflow" / "logs").rglob("*.log"))
    assert events == expected
    (tmp_path / "messages.txt").write_text("\n".join(messages.values()))
    assert canaries.outside(tmp_path / "airflow", patch) == []
    assert not canaries.own["shop"].found_in((tmp_path / "messages.txt").read_bytes())


def ended(client: Client, dag: str, run: str, how: str) -> tuple[str, dict[str, str]]:
    """Wait for a run to end so; its tasks that did, by name."""
    deadline = time.monotonic() + 180
    while (state := client.run(dag, run)["state"]) not in ("success", "failed"):
        assert time.monotonic() < deadline, client.tasks(dag, run)
        time.sleep(0.3)
    assert state == how, client.tasks(dag, run)
    states = {task["task_id"]: task["state"] for task in client.tasks(dag, run)}
    return run, {task: state for task, state in states.items() if state == how}
