"""A task that runs several stages, killed in the last of them: tried again, it repeats the rest."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from opboost_ops.exchange.manifest import run_id
from opboost_ops.orchestration.dags import failures, tasks
from opboost_ops.pipeline.phases import stages_by_task
from tests.dags.conftest import DAG_ID, RUN, in_task
from tests.federation import Workspace
from tests.party_state import state_of

DRIVER = Path(__file__).with_name("kill_task.py")
PLACE = ("credit_scoring", "credit")


@pytest.fixture
def left(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """What tasks of this process leave in XCom."""
    return in_task(monkeypatch)


def killed(workspace: Workspace, party: str, stages: tuple[str, ...]) -> dict[str, Any]:
    """Kill a task in its last stage; what those before have left in XCom."""
    done = subprocess.run(
        [sys.executable, DRIVER, DAG_ID, RUN, *PLACE, party, ",".join(stages)],
        env={**os.environ, **workspace.environment()},
        cwd=Path(__file__).parents[2],
        capture_output=True,
    )
    assert done.returncode == -9, done.stderr.decode()
    lines = [json.loads(line) for line in done.stdout.splitlines() if line.startswith(b'{"')]
    return {key: value for line in lines for key, value in line.items()}


def releases(workspace: Workspace) -> dict[str, list[str]]:
    """Everything that parties were charged, without times."""
    found = {}
    for party in ("credit", "shop", "bank"):
        with state_of(workspace, party) as state:
            found[party] = sorted(
                f"{r.kind} {r.feature} {r.loss} {r.artifact}" for r in state.ledger.entries()
            )
            assert state.ledger.uncommitted() == []
            state.audit.verify()
    return found


@pytest.mark.slow
def test_a_killed_task_repeats_its_earlier_stages_harmlessly(
    tmp_path: Path, left: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = Workspace.write(tmp_path / "whole")
    broken = whole.copy(tmp_path / "broken", run_id(DAG_ID, RUN))
    whole.run = broken.run
    with monkeypatch.context() as known:
        whole.known_to(known)
        whole.all()
    broken.known_to(monkeypatch)
    broken.open()
    struck = set()
    for task, stages in stages_by_task(broken.declared, "train").items():
        group, _, name = task.partition(".")
        party = group.rpartition("_")[0]
        before: dict[str, Any] = {}
        # Of the feature holders one is enough.
        if len(stages) > 1 and name not in struck:
            struck.add(name)
            before = killed(broken, party, stages)
            assert list(before) == list(stages[:-1])
        left.clear()
        result = tasks.run_stages(party, stages, *PLACE)
        assert list(left) == list(stages[:-1])
        assert "skip" not in result
        # Of what was done already, the same bytes: their digests are in the summaries.
        assert {stage: left[stage] for stage in before} == before
    assert struck == {
        "check_table", "psi_query", "desensitize", "psi_answer", "assemble", "train", "register"
    }  # fmt: skip
    assert broken.store.garbage(0) == []
    # Each draw is charged once, and the model is the one of a run that nothing has befallen.
    charged, expected = releases(broken), releases(whole)
    assert {p: len(lines) for p, lines in charged.items()} == {
        p: len(lines) for p, lines in expected.items()
    }
    (made,), (same,) = (
        [path.read_bytes() for path in (w.folder / "credit" / "models").rglob("model.txt")]
        for w in (broken, whole)
    )
    assert made == same


def test_a_task_stops_at_the_first_stage_that_fails_and_names_it(
    workspace: Workspace, left: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    workspace.run = run_id(DAG_ID, RUN)
    workspace.known_to(monkeypatch)
    workspace.until("check_table", "bank")
    stages = stages_by_task(workspace.declared, "train")["bank_release.desensitize"]
    (workspace.folder / "bank" / "tables" / "train.parquet").rename(workspace.folder / "away")
    with pytest.raises(failures.Failed) as caught:
        tasks.run_stages("bank", stages, *PLACE)
    assert caught.value.stage == "digest_ids"
    assert left["failure"]["stage"] == "digest_ids"
    assert set(left) == {"failure"}
