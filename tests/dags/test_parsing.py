"""The DAG file as Airflow parses it: no error, nothing heavy."""

import gc
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from airflow.sdk import DAG

from opboost_ops.errors import ConfigError
from opboost_ops.orchestration.dags import factory
from opboost_ops.orchestration.dags.factory import build_dags
from opboost_ops.orchestration.dags.lineage import PARAMETER
from tests.dags.conftest import NAMES

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
    assert set(result["dags"]) == NAMES
    # Beyond what Airflow has imported by then.
    assert result["modules"] < 220


def test_airflow_parses_the_folder(federations: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from airflow.dag_processing.dagbag import DagBag

    monkeypatch.setenv("OPBOOST_FEDERATIONS", str(federations))
    (federations / "broken.yaml").write_text("version: 7")
    bag = DagBag(ROOT / "dags", collect_dags=True)
    assert bag.import_errors == {}
    assert set(bag.dags) == {*NAMES, "broken_train"}
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


@pytest.mark.parametrize("fails", [False, True])
def test_collections_go_on_after_a_parse(
    federations: Path, monkeypatch: pytest.MonkeyPatch, fails: bool
) -> None:
    monkeypatch.setenv("OPBOOST_FEDERATIONS", str(federations))
    collects = []

    def build(*arguments: Any) -> dict[str, DAG]:
        collects.append(gc.isenabled())
        return {} if not fails else {}[""]

    monkeypatch.setattr(factory, "build_dags", build)
    if fails:
        with pytest.raises(KeyError):
            factory.federation_dags()
    else:
        factory.federation_dags()
    assert collects == [False] and gc.isenabled()


def test_what_is_not_handed_over_does_not_reach_airflow(
    federations: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Airflow takes what registers itself, too: DAGs that were refused after they were made."""
    from airflow.dag_processing.dagbag import DagBag

    text = (federations / "credit.yaml").read_text()
    later = federations / "later.yaml"
    later.write_text(f"{text}\nschedule: {{on_tables: 0 * * * *}}\n")
    made = build_dags(federations)
    (federations / "half.yaml").write_text(text.replace("name: credit_scoring", "name: half"))
    monkeypatch.setenv("OPBOOST_FEDERATIONS", str(federations))

    def half(dag: DAG) -> None:
        if dag.dag_id.startswith("half"):
            raise ConfigError("OpenLineage would send events.", "Lock it not.")

    monkeypatch.setattr(factory, "disable_lineage", half)
    bag = DagBag(ROOT / "dags", collect_dags=True)
    assert set(bag.dags) == {*made, "half_train"}
    for name, dag in bag.dags.items():
        assert not dag.auto_register
        assert ("invalid" in dag.tags) == (name not in NAMES)
    opening = bag.dags["credit_scoring_train"].get_task("credit_open.open_run")
    assert Path(opening.op_kwargs["federation_file"]).name == "credit.yaml"
