"""A party's state in a backup, and commands as in a shell."""

import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from opboost_ops.backup.encryption import Key, Lock
from opboost_ops.backup.writing import back_up
from opboost_ops.exchange.encryption import PrivateKey, new_encryption_key
from opboost_ops.exchange.key_files import write_private
from tests.federation import Workspace
from tests.unit.cli.conftest import Opboost
from tests.unit.cli.conftest import opboost as opboost

PASSPHRASE = "correct horse battery"

Refuses = Callable[..., str]


class Officer:
    """Who keeps the private key of a party's backups.

    Attributes:
        public: The public key, base64.
        file: The private key's file.
    """

    def __init__(self, folder: Path) -> None:
        half, self.public = new_encryption_key()
        self.file = folder / "officer.key"
        write_private(self.file, half.encode())

    @property
    def lock(self) -> Lock:
        return Lock(recipient=self.public)

    @property
    def key(self) -> Key:
        return Key(private=PrivateKey.from_file(self.file))


@pytest.fixture
def officer(tmp_path: Path) -> Officer:
    return Officer(tmp_path / "officer")


@pytest.fixture
def backup(workspace: Workspace, tmp_path: Path, officer: Officer) -> Path:
    """Of the bank, after one good run."""
    target = tmp_path / "bank.backup"
    back_up(workspace.folder / "bank", target, officer.lock)
    return target


@pytest.fixture
def emptied(workspace: Workspace, backup: Path) -> Workspace:
    """The workspace after the bank's machine was lost, keys and all; its tables are back."""
    bank = workspace.folder / "bank"
    tables = shutil.move(bank / "tables", backup.parent / "tables")
    shutil.rmtree(bank)
    bank.mkdir()
    shutil.move(tables, bank / "tables")
    return workspace


@pytest.fixture
def refuses(workspace: Workspace, backup: Path, officer: Officer, opboost: Opboost) -> Refuses:
    """What `opboost restore` says that refuses a backup, by which nothing changes."""

    def refused(*key: str | Path, party: str = "bank", path: Path = backup) -> str:
        site, key = workspace.folder / party, key or ("--key", officer.file)
        with untouched(site):
            error = opboost("restore", site, path, "--yes", *key).error
        assert "Nothing was changed" in error
        assert len(error) < 400
        return error

    return refused


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
