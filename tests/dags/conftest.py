"""A folder with one good federation file, and contexts as Airflow gives them to tasks."""

import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml
from airflow.sdk import DAG
from airflow.sdk.execution_time import task_runner
from airflow.sdk.execution_time.comms import GetXCom, XComResult

from opboost_ops.extras.datasets import load
from opboost_ops.extras.datasets.workspace import write_workspace
from opboost_ops.orchestration.dags import run_notes, sensors, tasks
from opboost_ops.orchestration.dags.factory import build_dags
from tests.federation import merge

ROOT = Path(__file__).parents[2]

DAG_ID, RUN = "credit_scoring_train", "manual__1"

#: The DAGs of the file as it is.
NAMES = {f"credit_scoring_{what}" for what in ("train", "score", "admin")}


@pytest.fixture(scope="session")
def good_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("workspace") / "credit"
    return write_workspace(load("credit", rows=200), folder, epsilon=None, lower=None, upper=None)


@pytest.fixture
def federations(good_file: Path, tmp_path: Path) -> Path:
    folder = tmp_path / "federations"
    folder.mkdir()
    (folder / "credit.yaml").write_text(good_file.read_text())
    return folder


def in_airflow(home: Path, *arguments: str | Path, **environment: str) -> str:
    """What Python prints in an Airflow home of its own; it must end well.

    Args:
        home: The AIRFLOW_HOME.
        arguments: Python's.
        environment: Variables besides; none of this process's own Airflow are there.
    """
    ours = ("AIRFLOW", "OPBOOST_", "_AIRFLOW")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(ours)}
    more = {"AIRFLOW_HOME": str(home), "AIRFLOW__CORE__LOAD_EXAMPLES": "False"}
    done = subprocess.run(
        [sys.executable, *map(str, arguments)],
        env={**kept, **more, "PYTHONPATH": str(ROOT), **environment},
        cwd=home,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    return done.stdout + done.stderr


def declare(federations: Path, **entries: Any) -> dict[str, DAG]:
    """The folder's DAGs once other entries were declared, and merged into what was there."""
    path = federations / "credit.yaml"
    data = yaml.safe_load(path.read_text())
    merge(data, entries)
    path.write_text(yaml.safe_dump(data, sort_keys=False))
    return build_dags(federations)


def with_mark(patch: pytest.MonkeyPatch, blocked: Any = None) -> None:
    """Let the API for tasks answer what lies where the scheduler leaves its mark.

    Args:
        patch: How long it does.
        blocked: The value.
    """

    def send(asked: GetXCom) -> XComResult:
        assert asked.key == "blocked_by"
        assert asked.task_id in ("credit_open.check_table", "after")
        return XComResult(key=asked.key, value=blocked)

    patch.setattr(task_runner, "SUPERVISOR_COMMS", SimpleNamespace(send=send), raising=False)


def in_task(
    patch: pytest.MonkeyPatch,
    params: dict[str, Any] | None = None,
    blocked: Any = None,
    **run: Any,
) -> dict[str, Any]:
    """Let this process be at a run's first task; what it leaves in XCom.

    Args:
        patch: How long it is.
        params: The trigger form's.
        blocked: What lies where the scheduler leaves that a pool is missing.
        run: What is otherwise of its run.
    """
    left: dict[str, Any] = {}

    fields = {"dag_id": DAG_ID, "run_id": RUN, "run_type": "manual", "conf": {}, "clear_number": 0}
    dag_run = SimpleNamespace(**{**fields, **run})
    after = {"bank_release.check_table", "credit_open.digest_ids", "credit_open.check_table"}
    ti = SimpleNamespace(
        dag_id=dag_run.dag_id,
        run_id=dag_run.run_id,
        task=SimpleNamespace(task_id="credit_open.open_run", downstream_task_ids=after),
        xcom_push=lambda key, value: left.update({key: value}),
    )
    with_mark(patch, blocked)
    context = {"dag_run": dag_run, "params": params or {}, "ti": ti}
    for module in (tasks, run_notes, sensors):
        patch.setattr(module, "get_current_context", lambda: context)
    return left
