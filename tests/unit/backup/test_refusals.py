"""A backup that is not the party's own, whole and as it was written is refused: nothing changes."""

import json
import zipfile
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from opboost_ops.backup import archive
from opboost_ops.backup.encryption import Decrypted, Encrypted
from opboost_ops.datasets.workspace import write_keys
from opboost_ops.privacy.database import VERSION
from tests.federation import Workspace
from tests.unit.backup.conftest import PASSPHRASE, Officer, untouched
from tests.unit.cli.conftest import Opboost


def rewritten(path: Path, officer: Officer, change: Callable[[dict[str, bytes]], None]) -> None:
    """Change the entries of a backup, as who can open it can: encryption needs no private key."""
    with path.open("rb") as source, zipfile.ZipFile(Decrypted(source, officer.key)) as file:
        entries = {name: file.read(name) for name in file.namelist()}
    change(entries)
    with (
        path.open("wb") as target,
        closing(Encrypted(target, officer.lock)) as encrypted,
        zipfile.ZipFile(encrypted, "w") as file,  # type: ignore[call-overload]
    ):
        for name, content in entries.items():
            file.writestr(name, content)


def manifest(entries: dict[str, bytes], **changes: Any) -> None:
    data = json.loads(entries[archive.MANIFEST])
    entries[archive.MANIFEST] = json.dumps({**data, **changes}).encode()


def sealed_anew(path: Path, officer: Officer, secret: bytes, **changes: Any) -> None:
    """What another release could have written."""

    def change(entries: dict[str, bytes]) -> None:
        data = {**json.loads(entries[archive.MANIFEST]), **changes}
        del data["seal"]
        entries[archive.MANIFEST] = json.dumps(
            {**data, "seal": archive._seal(secret, data)}
        ).encode()

    rewritten(path, officer, change)


def refused(opboost: Opboost, site: Path, path: Path, *key: str | Path) -> str:
    key = key or ("--key", path.parent / "officer" / "officer.key")
    with untouched(site):
        error = opboost("restore", site, path, "--yes", *key).error
    assert "Nothing was changed" in error
    assert len(error) < 400
    return error


def test_of_another_party(workspace: Workspace, backup: Path, opboost: Opboost) -> None:
    error = refused(opboost, workspace.folder / "shop", backup)
    assert "is of bank, and this is the site of shop" in error


def test_of_another_secret(workspace: Workspace, backup: Path, opboost: Opboost) -> None:
    bank = workspace.folder / "bank"
    for path in (bank / "keys").iterdir():
        if path.is_file() and path.name != "alignment.key":
            path.unlink()
    write_keys(bank / "keys")
    assert "The backup is of noise secret" in refused(opboost, bank, backup)


def test_of_before_a_rotation(workspace: Workspace, backup: Path, opboost: Opboost) -> None:
    bank = workspace.folder / "bank"
    opboost("keys", "rotate", bank, "--yes")
    assert "as a former one" in refused(opboost, bank, backup)


def test_of_newer_tables(
    workspace: Workspace, backup: Path, opboost: Opboost, officer: Officer
) -> None:
    bank = workspace.folder / "bank"
    secret = (bank / "keys" / "noise.secret").read_bytes()
    sealed_anew(backup, officer, secret, tables=VERSION + 1, software="9.9.0")
    error = refused(opboost, bank, backup)
    assert f"version {VERSION + 1}, made by release 9.9.0" in error
    assert "Upgrade" in error


def test_of_a_newer_format(
    workspace: Workspace, backup: Path, opboost: Opboost, officer: Officer
) -> None:
    rewritten(backup, officer, lambda entries: manifest(entries, version=3, more={"a": 1}))
    assert "format version 3" in refused(opboost, workspace.folder / "bank", backup)


@pytest.mark.parametrize("share", [0.1, 0.5, 0.999])
def test_cut_short(workspace: Workspace, backup: Path, opboost: Opboost, share: float) -> None:
    raw = backup.read_bytes()
    backup.write_bytes(raw[: int(share * len(raw))])
    error = refused(opboost, workspace.folder / "bank", backup)
    assert "cut short" in error or "does not open" in error


def test_a_backup_of_a_former_release(
    workspace: Workspace, tmp_path: Path, opboost: Opboost
) -> None:
    """Which was a plain zip."""
    with zipfile.ZipFile(tmp_path / "z", "w") as file:
        file.writestr("backup.json", "{}")
    phrase = tmp_path / "phrase"
    phrase.write_text(PASSPHRASE)
    words = ("--passphrase-file", phrase)
    assert "one of 0.2.0" in refused(opboost, workspace.folder / "bank", tmp_path / "z", *words)


def test_with_another_key(
    workspace: Workspace, backup: Path, opboost: Opboost, tmp_path: Path
) -> None:
    bank, other = workspace.folder / "bank", Officer(tmp_path / "other")
    assert "does not open" in refused(opboost, bank, backup, "--key", other.file)
    (tmp_path / "phrase").write_text(PASSPHRASE)
    words = ("--passphrase-file", tmp_path / "phrase")
    assert "the private half of the key" in refused(opboost, bank, backup, *words)


def test_without_a_key_nothing_is_written_or_read(
    workspace: Workspace, backup: Path, opboost: Opboost, tmp_path: Path
) -> None:
    bank = workspace.folder / "bank"
    assert "only encrypted" in opboost("backup", bank, tmp_path / "new").error
    (tmp_path / "phrase").write_text("short")
    words = ("--passphrase-file", tmp_path / "phrase")
    assert "fewer than 12" in opboost("backup", bank, tmp_path / "new", *words).error
    error = opboost("backup", bank, tmp_path / "new", "--recipient", "bm90IGEga2V5").error
    assert "not an X25519 public key" in error
    assert not [path for path in tmp_path.iterdir() if "new" in path.name]
    with untouched(bank):
        assert "is encrypted" in opboost("restore", bank, backup).error


def test_missing(workspace: Workspace, tmp_path: Path, opboost: Opboost) -> None:
    Officer(tmp_path / "officer")
    assert "cannot be read" in refused(opboost, workspace.folder / "bank", tmp_path / "none")


EDITS: dict[str, Callable[[dict[str, bytes]], None]] = {
    "a line of the ledger": lambda e: e.update(
        {"database/releases.jsonl": e["database/releases.jsonl"].replace(b"bank", b"bonk")}
    ),
    "a line less": lambda e: e.update(
        {"database/commits.jsonl": e["database/commits.jsonl"].partition(b"\n")[2]}
    ),
    "a cell state less": lambda e: e.pop(min(n for n in e if n.endswith(".parquet"))),
    "a cell state of another": lambda e: e.update(
        {min(n for n in e if n.endswith(".parquet")): e[max(n for n in e if "parquet" in n)]}
    ),
    "an entry more": lambda e: e.update({"models/x/y/model.txt": b"tree"}),
    "a way out": lambda e: e.update({"cells/../../escape": b"x"}),
    "the policy": lambda e: e.update({"files/policy.yaml": b"version: 1\n"}),
    "the head": lambda e: manifest(e, head="0" * 64),
    "the count": lambda e: manifest(e, lines=1),
    "the moment": lambda e: manifest(e, at="2031-01-01T00:00:00+00:00"),
}


@pytest.mark.parametrize("what", EDITS)
def test_edited(
    workspace: Workspace, backup: Path, opboost: Opboost, what: str, officer: Officer
) -> None:
    rewritten(backup, officer, EDITS[what])
    assert "damaged or was edited" in refused(opboost, workspace.folder / "bank", backup)
    assert not (workspace.folder / "escape").exists()


@pytest.mark.parametrize("where", [0.02, 0.3, 0.6, 0.9])
def test_a_bit_that_turned(
    workspace: Workspace, backup: Path, opboost: Opboost, where: float
) -> None:
    raw = bytearray(backup.read_bytes())
    raw[int(where * len(raw))] ^= 1
    backup.write_bytes(raw)
    error = refused(opboost, workspace.folder / "bank", backup)
    assert "damaged" in error or "does not open" in error


def test_into_an_empty_place_nothing_is_left_of_a_refusal(
    emptied: Workspace, backup: Path, opboost: Opboost, officer: Officer
) -> None:
    rewritten(backup, officer, EDITS["a line of the ledger"])
    refused(opboost, emptied.folder / "bank", backup)
