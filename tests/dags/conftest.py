"""A folder with one good federation file."""

import json
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from opboost_ops.datasets import load
from opboost_ops.datasets.workspace import write_workspace


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


def first_task(problems: Sequence[str] = ()) -> Any:
    """A run's first task, of which the scheduler has left these problems."""

    def xcom_pull(task_ids: str, key: str) -> str | None:
        assert (task_ids, key) == ("credit_open.check_table", "blocked_by")
        return json.dumps(problems) if problems else None

    after = {"credit_open.digest_ids", "credit_open.check_table"}
    return SimpleNamespace(
        dag_id="d",
        run_id="r",
        task=SimpleNamespace(downstream_task_ids=after),
        xcom_pull=xcom_pull,
        xcom_push=lambda key, value: None,
    )
