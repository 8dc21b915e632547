"""The DAG file as Airflow parses it: no error, nothing heavy."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from opboost_ops.orchestration.lineage import PARAMETER

ROOT = Path(__file__).parents[2]

_MEASURE = """
import json, sys
from airflow.sdk import DAG, Param, TaskGroup, task
import airflow.sdk.execution_time.task_runner
with DAG("warm", schedule=None):
    @task
    def nothing(): pass
    nothing()
before = set(sys.modules)
import runpy
found = runpy.run_path(sys.argv[1])
modules = len(set(sys.modules) - before)
heavy = {"polars", "pyarrow", "lightgbm", "great_expectations", "pandas"} & set(sys.modules)
dags = [name for name, value in found.items() if isinstance(value, DAG)]
print(json.dumps({"modules": modules, "heavy": sorted(heavy), "dags": dags}))
"""


def test_import_is_cheap(federations: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPBOOST_FEDERATIONS", str(federations))
    found = subprocess.run(
        [sys.executable, "-c", _MEASURE, str(ROOT / "dags" / "federations.py")],
        check=True,
        capture_output=True,
        text=True,
    )
    result = json.loads(found.stdout.splitlines()[-1])
    assert result["heavy"] == []
    assert sorted(result["dags"]) == [
        "credit_scoring_acts",
        "credit_scoring_score",
        "credit_scoring_train",
    ]
    # Beyond what Airflow has imported by then.
    assert result["modules"] < 220


def test_airflow_parses_the_folder(federations: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from airflow.dag_processing.dagbag import DagBag

    monkeypatch.setenv("OPBOOST_FEDERATIONS", str(federations))
    (federations / "broken.yaml").write_text("version: 7")
    bag = DagBag(ROOT / "dags", collect_dags=True)
    assert bag.import_errors == {}
    names = {f"credit_scoring_{what}" for what in ("train", "score", "acts")}
    assert set(bag.dags) == {*names, "broken_train"}
    for dag in bag.dags.values():
        assert dag.tags
        assert dag.doc_md
        assert all(task.owner not in ("", "airflow") for task in dag.tasks)
        # Copies of the form at every task took a third of a parse.
        assert all(list(task.params) == [PARAMETER] for task in dag.tasks)


def test_without_a_folder_there_is_no_dag(monkeypatch: pytest.MonkeyPatch) -> None:
    from airflow.dag_processing.dagbag import DagBag

    monkeypatch.delenv("OPBOOST_FEDERATIONS", raising=False)
    bag = DagBag(ROOT / "dags", collect_dags=True)
    assert (bag.dags, bag.import_errors) == ({}, {})


def test_dag_files_are_thin() -> None:
    for path in [*(ROOT / "dags").glob("*.py"), *(ROOT / "plugins").glob("*.py")]:
        assert len(path.read_text().splitlines()) < 100
