"""A backup that somebody else has made, who knows no more than the public key.

Into an empty place it is restored with the noise secret that it brings along, so its seal is good.
"""

import hashlib
import json
from collections import namedtuple
from pathlib import Path
from typing import Any

import pytest
import yaml

from opboost_ops.backup import archive, places
from opboost_ops.config.loading import load_site
from opboost_ops.exchange.manifest import File
from tests.federation import Workspace
from tests.unit.backup.conftest import Officer, untouched
from tests.unit.backup.test_refusals import refused, rewritten, sealed_anew
from tests.unit.cli.conftest import Opboost

CONTENT = b"* * * * * root sh\n"


@pytest.fixture
def secret(workspace: Workspace, backup: Path) -> bytes:
    """The noise secret that is in the backup, read before the party's folder is emptied."""
    return load_site(workspace.folder / "bank" / "site.yaml").noise_secret()


def forge(path: Path, key: Officer, secret: bytes, added: dict[str, bytes]) -> None:
    """Add entries to a backup, or change them, and seal it again."""

    def change(entries: dict[str, bytes]) -> None:
        entries.update(added)
        data = json.loads(entries[archive.MANIFEST])
        del data["seal"]
        for name, content in added.items():
            data["files"][name] = File(
                sha256=hashlib.sha256(content).hexdigest(), size=len(content)
            ).model_dump()
        contents = archive.Contents.model_validate(data).model_dump(mode="json")
        sealed = {**contents, "seal": archive._seal(secret, contents)}
        entries[archive.MANIFEST] = json.dumps(sealed).encode()

    rewritten(path, key, change)


@pytest.mark.parametrize(
    "name",
    [
        *(f"{kind}/{{outside}}/escape" for kind in ("files", "cells", "models", "database")),
        *(f"{kind}/../../escape" for kind in ("files", "cells", "models", "database")),
        "files/./../../escape",
        "cells/..\\..\\escape",
        "files/",
        "{outside}/escape",
        "models/\x1b]0;escape\x07",
        "models/a/b\nescape",
    ],
)
def test_no_entry_leads_out_of_the_party_s_folder(
    name: str,
    backup: Path,
    secret: bytes,
    emptied: Workspace,
    officer: Officer,
    opboost: Opboost,
    tmp_path: Path,
) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    forge(backup, officer, secret, {name.format(outside=outside): CONTENT})

    assert "outside of its folder" in refused(opboost, emptied.folder / "bank", backup)

    assert not list(tmp_path.rglob("*escape*")) and not list(outside.iterdir())


@pytest.mark.parametrize("there", [True, False])
@pytest.mark.parametrize("place", ["cells", "models", "home", "secret", "signing_key", "ledger"])
def test_a_site_that_the_backup_brings_along_writes_nowhere_else(
    place: str,
    there: bool,
    workspace: Workspace,
    backup: Path,
    officer: Officer,
    opboost: Opboost,
    tmp_path: Path,
    request: pytest.FixtureRequest,
) -> None:
    """Its ``site.yaml`` says that files lie where something else is, or may be: `~/.ssh`."""
    outside = tmp_path / "outside"
    file = workspace.folder / "bank" / "site.yaml"
    secret, said = load_site(file).noise_secret(), yaml.safe_load(file.read_text())
    emptied = request.getfixturevalue("emptied")
    if there:
        outside.mkdir()
        (outside / "authorized_keys").write_text("mine")
    named = {"ledger": f"sqlite:///{outside}/new"}.get(place, f"{outside}/new")
    named = str(outside) if place in ("cells", "models", "home") else named
    site = yaml.safe_dump({**said, place: named}).encode()
    added = {"files/site.yaml": site, f"{place}/authorized_keys": CONTENT}
    if place in ("secret", "signing_key", "ledger", "home"):
        del added[f"{place}/authorized_keys"]
    forge(backup, officer, secret, added)

    with untouched(outside):
        assert "outside of bank" in refused(opboost, emptied.folder / "bank", backup)
    assert outside.exists() == there


def test_a_bomb_is_refused_before_anything_is_unpacked(
    backup: Path,
    secret: bytes,
    emptied: Workspace,
    officer: Officer,
    opboost: Opboost,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    forge(backup, officer, secret, {"models/a/b/zeros": bytes(64 << 20)})
    small = namedtuple("usage", "total used free")(1 << 30, 1 << 30, 32 << 20)
    monkeypatch.setattr(places.shutil, "disk_usage", lambda _: small)
    assert "No space left" in refused(opboost, emptied.folder / "bank", backup)


def test_what_is_read_as_a_whole_is_small(
    backup: Path,
    secret: bytes,
    emptied: Workspace,
    officer: Officer,
    opboost: Opboost,
) -> None:
    """Keys are read before the seal is verified."""
    forge(backup, officer, secret, {"keys/cells_key": bytes(32 << 20)})
    assert "damaged or was edited" in refused(opboost, emptied.folder / "bank", backup)


@pytest.mark.parametrize(
    "said",
    [{"at": "\x1b[2J"}, {"software": "\x1b[2J"}, {"made": {"models/credit_scoring": 10**30}}],
)
def test_what_it_says_of_itself_is_plain(
    said: dict[str, Any],
    backup: Path,
    secret: bytes,
    emptied: Workspace,
    officer: Officer,
    opboost: Opboost,
) -> None:
    """It is shown in a terminal, and becomes times of files."""
    sealed_anew(backup, officer, secret, **said)
    error = refused(opboost, emptied.folder / "bank", backup)
    assert "damaged or was edited" in error and "\x1b" not in error
