"""A backup that is not the party's own, whole and as it was written is refused: nothing changes."""

import json
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyrage
import pytest

from opboost_ops.extras.backup import archive
from opboost_ops.extras.datasets.workspace import write_keys
from opboost_ops.privacy.ledger.tables import VERSION
from tests.federation import Workspace
from tests.integration.cli.conftest import Opboost
from tests.integration.extras.backup.conftest import Officer, Refuses


def rewritten(path: Path, officer: Officer, change: Callable[[dict[str, bytes]], None]) -> None:
    """Change the entries of a backup, as who can open it can: encryption needs no private key."""
    entries = officer.entries(path)
    change(entries)
    officer.write(path, entries)


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
    assert "is of bank, but this is the site of shop" in refuses(party="shop")


def test_of_another_secret(workspace: Workspace, refuses: Refuses) -> None:
    keys = workspace.folder / "bank" / "keys"
    for path in keys.iterdir():
        if path.is_file() and path.name != "alignment.key":
            path.unlink()
    write_keys(keys)
    assert "The backup was made with noise secret" in refuses()


def test_of_other_tables(
    workspace: Workspace, backup: Path, refuses: Refuses, officer: Officer
) -> None:
    secret = (workspace.folder / "bank" / "keys" / "noise.secret").read_bytes()
    sealed_anew(backup, officer, secret, tables=VERSION + 1, software="9.9.0")
    error = refuses()
    assert "made by release 9.9.0" in error and f"version {VERSION + 1}" in error


@pytest.mark.parametrize("share", [0.1, 0.5, 0.999])
def test_cut_short(backup: Path, refuses: Refuses, share: float) -> None:
    raw = backup.read_bytes()
    backup.write_bytes(raw[: int(share * len(raw))])
    error = refuses()
    assert "truncated" in error or "does not open" in error


def test_with_another_key(refuses: Refuses, tmp_path: Path) -> None:
    assert "does not open" in refuses("--key", Officer(tmp_path / "other").file)
    (tmp_path / "words").write_text("AGE-SECRET-KEY-1QQ")
    assert "has no age private key" in refuses("--key", tmp_path / "words")


def test_what_is_no_backup(refuses: Refuses, tmp_path: Path, officer: Officer) -> None:
    path = tmp_path / "z"
    for content in (b"", b"PK\x03\x04" * 100, b"age-encryption.org/v1\n" * 2):
        path.write_bytes(content)
        assert "does not open with this key, or is not a backup" in refuses(path=path)
    for content in (b"", b"no archive" * 1000, bytes(10240)):
        path.write_bytes(pyrage.encrypt(content, [officer.identity.to_public()]))
        assert "is not as it was written" in refuses(path=path)


def test_without_a_recipient_nothing_is_written(
    workspace: Workspace, opboost: Opboost, tmp_path: Path
) -> None:
    bank = workspace.folder / "bank"
    error = opboost("backup", bank, tmp_path / "new", "--recipient", "bm90IGEga2V5").error
    assert "not an age public key" in error
    assert not [path for path in tmp_path.iterdir() if "new" in path.name]


def test_missing(refuses: Refuses, tmp_path: Path) -> None:
    assert "cannot be read" in refuses(path=tmp_path / "none")


EDITS: dict[str, Callable[[dict[str, bytes]], None]] = {
    "a line of the ledger": lambda e: e.update(
        {"database/entries.jsonl": e["database/entries.jsonl"].replace(b"bank", b"bonk")}
    ),
    "a line less": lambda e: e.update(
        {"database/commits.jsonl": e["database/commits.jsonl"].partition(b"\n")[2]}
    ),
    "pins less": lambda e: e.pop(min(n for n in e if n.endswith(".pins"))),
    "pins of another release": lambda e: e.update(
        {min(n for n in e if n.endswith(".pins")): e[max(n for n in e if n.endswith(".pins"))]}
    ),
    "an entry more": lambda e: e.update({"models/x/y/model.txt": b"tree"}),
    "a way out": lambda e: e.update({"pins/../../escape": b"x"}),
    "the policy": lambda e: e.update({"policy.yaml": b"version: 1\n"}),
    "the head": lambda e: manifest(e, head="0" * 64),
    "the count": lambda e: manifest(e, lines=1),
    "the moment": lambda e: manifest(e, at="2031-01-01T00:00:00+00:00"),
}


@pytest.mark.parametrize("what", EDITS)
def test_edited(
    workspace: Workspace, backup: Path, refuses: Refuses, what: str, officer: Officer
) -> None:
    rewritten(backup, officer, EDITS[what])
    error = refuses()
    assert "damaged or was edited" in error or "outside of its folder" in error
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


def entry(kind: bytes, name: str = "models/x", **fields: Any) -> tarfile.TarInfo:
    made = tarfile.TarInfo(name)
    made.type = kind
    for field, value in fields.items():
        setattr(made, field, value)
    return made


HOSTILE: dict[str, tuple[dict[str, bytes] | tarfile.TarInfo, ...]] = {
    "a link out": (entry(tarfile.SYMTYPE, linkname="../.."), {"models/x/escape": b"x"}),
    "a link to a file here": (entry(tarfile.SYMTYPE, linkname="../policy.yaml"),),
    "a hard link": (entry(tarfile.LNKTYPE, linkname="/etc/passwd"),),
    "a hard link to an entry": (entry(tarfile.LNKTYPE, linkname="policy.yaml"),),
    "a device": (entry(tarfile.CHRTYPE, devmajor=1, devminor=5),),
    "a pipe": (entry(tarfile.FIFOTYPE),),
    "an absolute path": ({"/tmp/escape": b"x"},),
    "a way up": ({"models/../../escape": b"x"},),
    "a file twice": ({"policy.yaml": b"a"}, {"policy.yaml": b"b"}),
    "a sparse bomb": (
        entry(
            tarfile.REGTYPE,
            pax_headers={
                "GNU.sparse.major": "1", "GNU.sparse.minor": "0",
                "GNU.sparse.name": "models/x", "GNU.sparse.realsize": str(1 << 50),
            },
            size=512,
        ),
    ),
    "a file below a file": ({"policy.yaml": b"a", "policy.yaml/x": b"b"},),
}  # fmt: skip


@pytest.mark.parametrize("what", HOSTILE)
def test_hostile_archives(
    workspace: Workspace, backup: Path, refuses: Refuses, what: str, officer: Officer
) -> None:
    officer.write(backup, *HOSTILE[what], officer.entries(backup))
    refuses()
    assert not list(backup.parent.rglob("*escape*"))


def test_a_backup_that_is_larger_than_the_disk_is_refused(
    refuses: Refuses, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: Any, **__: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(tarfile.TarFile, "extractall", full)
    assert "No space left" in refuses()
