"""A party's books in a backup, and commands as in a shell."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from opboost_ops.backup.writing import back_up
from tests.federation import Workspace
from tests.unit.cli.conftest import opboost as opboost

PASSPHRASE = "correct horse battery"


@pytest.fixture
def backup(workspace: Workspace, tmp_path: Path) -> Path:
    """Of the bank, after one good run."""
    target = tmp_path / "bank.backup"
    back_up(workspace.folder / "bank", target)
    return target


@pytest.fixture
def emptied(workspace: Workspace, backup: Path) -> Workspace:
    """The workspace after the bank's machine was lost; its keys are all that is left."""
    bank = workspace.folder / "bank"
    keys = {path.name: path.read_bytes() for path in (bank / "keys").iterdir()}
    tables = shutil.move(bank / "tables", backup.parent / "tables")
    shutil.rmtree(bank)
    (bank / "keys").mkdir(parents=True)
    shutil.move(tables, bank / "tables")
    for name, content in keys.items():
        (bank / "keys" / name).write_bytes(content)
        (bank / "keys" / name).chmod(0o600)
    return workspace


@contextmanager
def untouched(folder: Path) -> Iterator[None]:
    """All files below a folder are afterwards as they were, and no others."""

    def there() -> dict[str, bytes]:
        paths = sorted(path for path in folder.rglob("*") if path.is_file())
        return {path.relative_to(folder).as_posix(): path.read_bytes() for path in paths}

    before = there()
    yield
    after = there()
    assert after.keys() == before.keys()
    assert [name for name in before if before[name] != after[name]] == []
