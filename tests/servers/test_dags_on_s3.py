"""Training and scoring by Airflow: exchange on an S3 server, encrypted; a table in files."""

import json
import os
import subprocess
import sys
from pathlib import Path

import polars as pl
import pytest
import yaml

from opboost_ops.exchange.store.store import open_store
from opboost_ops.orchestration.dags.failures import XCOM_LIMIT
from tests.federation import Workspace
from tests.unit.exchange.conftest import s3, s3_server  # noqa: F401

ROOT = Path(__file__).parents[2]


def in_three(workspace: Workspace, party: str) -> None:
    """Make a party's table several files."""
    path = workspace.table_path(party)
    table = pl.read_parquet(path)
    path.unlink()
    path.mkdir()
    for number, rows in enumerate((slice(0, 7), slice(7, 300), slice(300, None))):
        table[rows].write_parquet(path / f"{number}.parquet")


@pytest.mark.slow
def test_the_whole_dags_with_their_exchange_on_s3(
    tmp_path: Path,
    s3: str,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    workspace = Workspace.write(tmp_path / "federation", seed=None)
    for party in workspace.declared.parties:
        path = workspace.folder / party / "site.yaml"
        site = yaml.safe_load(path.read_text())
        path.write_text(yaml.safe_dump({**site, "store": f"env:STORE_OF_{party.upper()}"}))
        monkeypatch.setenv(f"STORE_OF_{party.upper()}", s3)
    in_three(workspace, "bank")
    environment = {
        **os.environ,
        **workspace.environment(),
        "PYTHONPATH": str(ROOT),
        "AIRFLOW_HOME": str(tmp_path / "airflow"),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "AIRFLOW__CORE__DAGS_FOLDER": str(ROOT / "dags"),
        "OPBOOST_FEDERATIONS": str(workspace.folder),
    }
    driver = ROOT / "tests" / "dags" / "run_dags.py"
    arguments = [str(driver), str(tmp_path / "result.json")]
    for command in (["-m", "airflow", "db", "migrate"], arguments):
        done = subprocess.run(
            [sys.executable, *command], env=environment, cwd=tmp_path, capture_output=True
        )
    assert done.returncode == 0, done.stdout.decode()[-3000:]
    results = json.loads((tmp_path / "result.json").read_text())
    assert list(results) == ["credit_scoring_train", "credit_scoring_score"]
    for result in results.values():
        assert result["state"] == "success"
        assert {state for _, state in result["tasks"]} == {"success"}
        assert all(len(json.dumps(value)) < XCOM_LIMIT for _, _, value in result["xcom"])
    (model,) = (workspace.folder / "credit" / "models").rglob("model.txt")
    (scores,) = (workspace.folder / "credit" / "scores").rglob("*.parquet")
    assert scores.parent.name == model.parent.name
    people = [
        set(pl.read_parquet(workspace.folder / party / "tables" / "score.parquet")["id"])
        for party in workspace.declared.parties
    ]
    assert set(pl.read_parquet(scores)["id"]) == set.intersection(*people)
    assert not (workspace.folder / "exchange").joinpath("credit_scoring").exists()
    published = open_store(s3).list("credit_scoring")
    kinds = {place.split("/")[2] for place in published}
    assert kinds == {
        "plan", "psi_query", "psi_answer", "shares", "ranks", "split_request", "split_values",
        "values",
    }  # fmt: skip
