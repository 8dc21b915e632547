"""The same search after runs on a real Airflow: its logs, its database, its XCom."""

import json
import os
import time
from pathlib import Path

import pytest

from opboost_ops.cli.demo import follow
from opboost_ops.errors import OpBoostError
from opboost_ops.orchestration.standalone import Standalone
from opboost_ops.stages.catalogue import STAGES
from tests.leakage.canaries import NAME, plant
from tests.leakage.failing_stage import planned

ROOT = Path(__file__).parents[2]
DAG = f"{NAME}_train"

#: Stages of the scheduler's children fail as a file says that is read at every call.
_PATCH = """
import os, sys

if "scheduler" in sys.orig_argv:
    sys.path.insert(0, os.environ["TEST_ROOT"])
    import json
    from opboost_ops.stages import catalogue
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
    failures = planned({party: canaries.one_of_each(party) for party in ("shop", "bureau")})
    messages = {}
    with Standalone(tmp_path / "airflow", canaries.root, canaries.sites) as airflow:
        client = airflow.client()
        while not client.has_dag(DAG):
            airflow.check()
        failure.write_text(json.dumps({"stage": "", "party": "", "text": ""}))
        whole = follow(airflow, client, canaries.federation, lambda *_: None)
        for name, (task, party, text) in failures.items():
            failure.write_text(json.dumps({"stage": name, "party": party, "text": text}))
            with pytest.raises(OpBoostError) as caught:
                follow(airflow, client, canaries.federation, lambda *_: None)
            messages[name] = str(caught.value)
            assert f"{task}: " in messages[name]
        # Callbacks run after Airflow has said how the task ended.
        told, deadline = tmp_path / "airflow" / "told.jsonl", time.monotonic() + 30
        while len(told.read_text().splitlines()) <= len(failures) and time.monotonic() < deadline:
            time.sleep(0.1)
    failure.unlink()
    assert set(whole.summaries["bureau"]) == {
        "open_run",
        *(name for name, stage in STAGES.items() if "label_holder" in stage.groups),
    }
    for summary in (s for stages in whole.summaries.values() for s in stages.values()):
        assert len(json.dumps(summary)) < 2048
    for name, message in messages.items():
        assert f"{name} at {failures[name][1]} failed unexpectedly (ComputeError)" in message
    assert list((tmp_path / "airflow" / "logs").rglob("*.log"))
    events = [json.loads(line) for line in told.read_text().splitlines()]
    assert [(entry["event"], entry["stage"]) for entry in events] == [
        ("champion_changed", "register"),
        *(("failure", name) for name in failures),
    ]
    (tmp_path / "messages.txt").write_text("\n".join(messages.values()))
    assert canaries.outside(tmp_path / "airflow", patch) == []
    assert not canaries.own["shop"].found_in((tmp_path / "messages.txt").read_bytes())
