"""A party's state in a backup, and commands as in a shell."""

import io
import shutil
import tarfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pyrage
import pytest

from opboost_ops.extras.backup.writing import back_up
from tests.federation import Workspace
from tests.integration.cli.conftest import Opboost
from tests.integration.cli.conftest import opboost as opboost

Refuses = Callable[..., str]


class Officer:
    """Who keeps the private key of a party's backups.

    Attributes:
        identity: The private key.
        public: The public key.
        file: The private key's file, as `age-keygen` writes it.
    """

    def __init__(self, folder: Path) -> None:
        self.identity = pyrage.x25519.Identity.generate()
        self.public = str(self.identity.to_public())
        self.file = folder / "officer.key"
        folder.mkdir()
        self.file.write_text(f"# public key: {self.public}\n{self.identity}\n")

    def entries(self, backup: Path) -> dict[str, bytes]:
        """The files in a backup by name, read without the package."""
        content = pyrage.decrypt(backup.read_bytes(), [self.identity])
        with tarfile.open(fileobj=io.BytesIO(content)) as tar:
            return {entry.name: file.read() for entry in tar if (file := tar.extractfile(entry))}

    def write(self, backup: Path, *parts: dict[str, bytes] | tarfile.TarInfo) -> None:
        """A backup of other entries: encryption needs no private key."""
        content = io.BytesIO()
        with tarfile.open(fileobj=content, mode="w") as tar:
            for part in parts:
                if isinstance(part, tarfile.TarInfo):
                    tar.addfile(part, io.BytesIO(bytes(part.size)))
                    continue
                for name, data in part.items():
                    entry = tarfile.TarInfo(name)
                    entry.size = len(data)
                    tar.addfile(entry, io.BytesIO(data))
        backup.write_bytes(pyrage.encrypt(content.getvalue(), [self.identity.to_public()]))


@pytest.fixture
def officer(tmp_path: Path) -> Officer:
    return Officer(tmp_path / "officer")


@pytest.fixture
def backup(workspace: Workspace, tmp_path: Path, officer: Officer) -> Path:
    """Of the bank, after one good run."""
    target = tmp_path / "bank.backup"
    back_up(workspace.folder / "bank", target, officer.public)
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
