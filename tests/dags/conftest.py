"""A folder with one good federation file."""

from pathlib import Path

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
