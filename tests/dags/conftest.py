"""A folder with one good federation file."""

from pathlib import Path
from typing import Any

import pytest
from airflow.sdk import DAG

from opboost_ops.datasets import load
from opboost_ops.datasets.workspace import write_workspace
from opboost_ops.orchestration import dags as module


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


@pytest.fixture
def home(tmp_path: Path) -> Path:
    folder = tmp_path / "airflow"
    folder.mkdir()
    return folder


@pytest.fixture
def built(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Names of the files that were built."""
    names: list[str] = []
    make = module._build

    def made(path: Path, *others: Any) -> list[DAG]:
        names.append(path.name)
        return make(path, *others)

    monkeypatch.setattr(module, "_build", made)
    return names
