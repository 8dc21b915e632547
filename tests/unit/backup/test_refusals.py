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
from opboost_ops.privacy.tables import VERSION
from tests.federation import Workspace
from tests.unit.backup.conftest import PASSPHRASE, Officer, Refuses, untouched
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


def test_of_another_party(refuses: Refuses) -> None:
    assert "is of bank, and this is the site of shop" in refuses(party="shop")


def test_of_another_secret(workspace: Workspace, refuses: Refuses) -> None:
    keys = workspace.folder / "bank" / "keys"
    for path in keys.iterdir():
        if path.is_file() and path.name != "alignment.key":
            path.unlink()
    write_keys(keys)
    assert "The backup is of noise secret" in refuses()


def test_of_before_a_rotation(workspace: Workspace, refuses: Refuses, opboost: Opboost) -> None:
    opboost("keys", "rotate", workspace.folder / "bank", "--yes")
    assert "as a former one" in refuses()


def test_of_newer_tables(
    workspace: Workspace, backup: Path, refuses: Refuses, officer: Officer
) -> None:
    secret = (workspace.folder / "bank" / "keys" / "noise.secret").read_bytes()
    sealed_anew(backup, officer, secret, tables=VERSION + 1, software="9.9.0")
    error = refuses()
    assert f"version {VERSION + 1}, made by release 9.9.0" in error
    assert "Upgrade" in error


def test_of_a_newer_format(backup: Path, refuses: Refuses, officer: Officer) -> None:
    rewritten(backup, officer, lambda entries: manifest(entries, version=3, more={"a": 1}))
    assert "format version 3" in refuses()


@pytest.mark.parametrize("share", [0.1, 0.5, 0.999])
def test_cut_short(backup: Path, refuses: Refuses, share: float) -> None:
    raw = backup.read_bytes()
    backup.write_bytes(raw[: int(share * len(raw))])
    error = refuses()
    assert "cut short" in error or "does not open" in error


def test_a_backup_of_a_former_release(tmp_path: Path, refuses: Refuses) -> None:
    """Which was a plain zip."""
    with zipfile.ZipFile(tmp_path / "z", "w") as file:
        file.writestr("backup.json", "{}")
    assert "one of 0.2.0" in refuses(path=tmp_path / "z")


def test_with_another_key(refuses: Refuses, tmp_path: Path) -> None:
    other = Officer(tmp_path / "other")
    assert "does not open" in refuses("--key", other.file)
    (tmp_path / "phrase").write_text(PASSPHRASE)
    words = ("--passphrase-file", tmp_path / "phrase")
    assert "the private half of the key" in refuses(*words)


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


def test_missing(refuses: Refuses, tmp_path: Path) -> None:
    assert "cannot be read" in refuses(path=tmp_path / "none")


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
    workspace: Workspace, backup: Path, refuses: Refuses, what: str, officer: Officer
) -> None:
    rewritten(backup, officer, EDITS[what])
    assert "damaged or was edited" in refuses()
    assert not (workspace.folder / "escape").exists()


@pytest.mark.parametrize("where", [0.02, 0.3, 0.6, 0.9])
def test_a_bit_that_turned(backup: Path, refuses: Refuses, where: float) -> None:
    raw = bytearray(backup.read_bytes())
    raw[int(where * len(raw))] ^= 1
    backup.write_bytes(raw)
    error = refuses()
    assert "damaged" in error or "does not open" in error


@pytest.mark.usefixtures("emptied")
def test_into_an_empty_place_nothing_is_left_of_a_refusal(
    backup: Path, refuses: Refuses, officer: Officer
) -> None:
    rewritten(backup, officer, EDITS["a line of the ledger"])
    refuses()
