"""A backup that somebody else has made, who knows no more than the public key.

Into an empty place it is restored with the noise secret that it brings along, so its seal is good.
"""

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from opboost_ops.extras.backup import archive
from tests.federation import Workspace
from tests.integration.cli.conftest import Opboost
from tests.integration.extras.backup.conftest import Officer, Refuses, untouched
from tests.integration.extras.backup.test_refusals import manifest, rewritten, sealed_anew

CONTENT = b"* * * * * root sh\n"


@pytest.fixture
def said(workspace: Workspace, backup: Path) -> Any:
    """The site as the backup has it, read before the party's folder is emptied."""
    return yaml.safe_load((workspace.folder / "bank" / "site.yaml").read_text())


@pytest.fixture
def secret(workspace: Workspace, said: Any) -> bytes:
    """The noise secret that is in the backup, likewise."""
    return workspace.site("bank").read_secret()


Forge = Callable[[dict[str, bytes]], str]


@pytest.fixture
def forged(
    backup: Path, secret: bytes, emptied: Workspace, officer: Officer, refuses: Refuses
) -> Forge:
    """What is said to a backup to which entries are added, or in which they are changed."""

    def forge(added: dict[str, bytes]) -> str:
        def change(entries: dict[str, bytes]) -> None:
            entries.update(added)
            data = json.loads(entries[archive.MANIFEST])
            del data["seal"]
            for name, content in added.items():
                data["files"][name] = hashlib.sha256(content).hexdigest()
            contents = archive.Contents.model_validate(data).model_dump(mode="json")
            sealed = {**contents, "seal": archive._seal(secret, contents)}
            entries[archive.MANIFEST] = json.dumps(sealed).encode()

        rewritten(backup, officer, change)
        return refuses()

    return forge


@pytest.mark.parametrize(
    "name",
    [
        *(f"{kind}/{{outside}}/escape" for kind in ("keys", "pins", "models", "database")),
        *(f"{kind}/../../escape" for kind in ("keys", "pins", "models", "database")),
        "./../../escape",
        "pins/..\\..\\escape",
        "{outside}/escape",
        "models/\x1b]0;escape\x07",
        "models/a/b\nescape",
    ],
)
def test_no_entry_leads_out_of_the_party_s_folder(name: str, forged: Forge, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    assert "outside of its folder" in forged({name.format(outside=outside): CONTENT})
    assert not list(tmp_path.rglob("*escape*")) and not list(outside.iterdir())


@pytest.mark.parametrize("there", [True, False])
@pytest.mark.parametrize("place", ["pins", "models", "home", "secret", "signing_key", "ledger"])
def test_a_site_that_the_backup_brings_along_writes_nowhere_else(
    place: str, there: bool, said: dict[str, Any], forged: Forge, tmp_path: Path
) -> None:
    """Its ``site.yaml`` says that files lie where something else is, or may be: `~/.ssh`."""
    outside = tmp_path / "outside"
    if there:
        outside.mkdir()
        (outside / "authorized_keys").write_text("mine")
    named = {"ledger": f"sqlite:///{outside}/new"}.get(place, f"{outside}/new")
    named = str(outside) if place in ("pins", "models", "home") else named
    added = {"site.yaml": yaml.safe_dump({**said, place: named}).encode()}
    if place in ("pins", "models"):
        added[f"{place}/authorized_keys"] = CONTENT
    with untouched(outside):
        assert "outside of bank" in forged(added)
    assert outside.exists() == there


@pytest.mark.parametrize(
    "ledger",
    [
        "sqlite+pysqlite:///{outside}/new",
        "sqlite:///new?uri=true",
        "env:LEDGER_OF_ANOTHER",
        "postgresql://somebody@127.0.0.1:1/else",
    ],
)
def test_a_ledger_that_the_backup_brings_along_is_a_file_of_its_folder(
    ledger: str,
    said: dict[str, Any],
    forged: Forge,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    monkeypatch.setenv("LEDGER_OF_ANOTHER", f"sqlite:///{outside}/new")
    site = yaml.safe_dump({**said, "ledger": ledger.format(outside=outside)})
    assert "outside of bank" in forged({"site.yaml": site.encode()})
    assert not list(outside.iterdir())


def test_no_other_files_come_into_the_party_s_folder(
    backup: Path, secret: bytes, emptied: Workspace, officer: Officer, opboost: Opboost
) -> None:
    added = {"sitecustomize.py": CONTENT, "keys/secret.pth": CONTENT}

    def change(entries: dict[str, bytes]) -> None:
        files = {name: hashlib.sha256(content).hexdigest() for name, content in added.items()}
        entries.update(added)
        manifest(entries, files={**json.loads(entries[archive.MANIFEST])["files"], **files})

    rewritten(backup, officer, change)
    sealed_anew(backup, officer, secret)
    bank = emptied.folder / "bank"
    assert opboost("restore", bank, backup, "--key", officer.file).code == 0
    assert not [path for path in bank.rglob("*") if path.suffix in (".py", ".pth")]


@pytest.mark.parametrize(
    "about",
    [{"at": "\x1b[2J"}, {"software": "\x1b[2J"}, {"left_out": ["\x1b[2J"]}],
)
def test_what_it_says_of_itself_is_plain(
    about: dict[str, Any],
    backup: Path,
    secret: bytes,
    emptied: Workspace,
    officer: Officer,
    refuses: Refuses,
) -> None:
    """It is shown in a terminal."""
    sealed_anew(backup, officer, secret, **about)
    error = refuses()
    assert "damaged or was edited" in error and "\x1b" not in error
