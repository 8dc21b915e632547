"""DPBoost over two feature holders under Adj-map: trained and scored by Airflow."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.federation import Workspace
from tests.party_state import state_of
from tests.unit.stages.test_dpboost_runs import allow, private

ROOT = Path(__file__).parents[2]


@pytest.mark.slow
def test_both_dags_both_ledgers_and_the_card(tmp_path: Path) -> None:
    workspace = Workspace.write(tmp_path / "federation")
    workspace.edit_yaml("federation.yaml", private)
    for party in ("shop", "bank"):
        workspace.edit_yaml(f"{party}/policy.yaml", allow)
    environment = {
        **os.environ,
        **workspace.environment(),
        "PYTHONPATH": str(ROOT),
        "AIRFLOW_HOME": str(tmp_path / "airflow"),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "AIRFLOW__CORE__DAGS_FOLDER": str(ROOT / "dags"),
        "OPBOOST_FEDERATIONS": str(workspace.folder),
    }
    driver = [str(Path(__file__).with_name("run_dags.py")), str(tmp_path / "result.json")]
    for command in (["-m", "airflow", "db", "migrate"], driver):
        done = subprocess.run(
            [sys.executable, *command], env=environment, cwd=tmp_path, capture_output=True
        )
        assert done.returncode == 0, done.stdout.decode()[-3000:]
    results = json.loads((tmp_path / "result.json").read_text())
    assert list(results) == ["credit_scoring_train", "credit_scoring_score"]
    assert {result["state"] for result in results.values()} == {"success"}
    with state_of(workspace, "credit") as state:
        models = [r.epsilon for r in state.ledger.releases() if r.account == "model"]
    assert models == [3.0]
    for party in ("shop", "bank"):
        with state_of(workspace, party) as state:
            losses = [r.loss for r in state.ledger.releases() if r.loss is not None]
        assert any(loss.mechanism.startswith("Adj-map") for loss in losses)
    (card,) = (workspace.folder / "credit" / "models").rglob("card.json")
    assert "epsilon is 3 if the row is added or removed" in " ".join(
        json.loads(card.read_text())["private"]
    )
