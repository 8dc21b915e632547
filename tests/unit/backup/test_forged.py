"""A backup that somebody else has made, who knows no more than the public key.

Into an empty place it is restored with the noise secret that it brings along, so its seal is good.
"""

import hashlib
import json
from pathlib import Path

import pytest
import yaml

from opboost_ops.backup import archive
from opboost_ops.config.loading import load_site
from opboost_ops.exchange.manifest import File
from tests.federation import Workspace
from tests.unit.backup.conftest import Officer, untouched
from tests.unit.backup.test_refusals import refused, rewritten
from tests.unit.cli.conftest import Opboost

CONTENT = b"* * * * * root sh\n"


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
    ],
)
def test_no_entry_leads_out_of_the_party_s_folder(
    name: str,
    workspace: Workspace,
    backup: Path,
    officer: Officer,
    opboost: Opboost,
    tmp_path: Path,
    request: pytest.FixtureRequest,
) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    secret = load_site(workspace.folder / "bank" / "site.yaml").noise_secret()
    emptied = request.getfixturevalue("emptied")
    forge(backup, officer, secret, {name.format(outside=outside): CONTENT})

    assert "leads out of its folder" in refused(opboost, emptied.folder / "bank", backup)

    assert not list(tmp_path.rglob("*escape*")) and not list(outside.iterdir())


@pytest.mark.parametrize("place", ["cells", "models"])
def test_a_site_that_the_backup_brings_along_replaces_nobody_s_files(
    place: str,
    workspace: Workspace,
    backup: Path,
    officer: Officer,
    opboost: Opboost,
    tmp_path: Path,
    request: pytest.FixtureRequest,
) -> None:
    """Its ``site.yaml`` says that models lie where something else is."""
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "authorized_keys").write_text("mine")
    file = workspace.folder / "bank" / "site.yaml"
    secret, said = load_site(file).noise_secret(), yaml.safe_load(file.read_text())
    emptied = request.getfixturevalue("emptied")
    site = yaml.safe_dump({**said, place: str(outside)}).encode()
    added = {"files/site.yaml": site, f"{place}/authorized_keys": CONTENT}
    forge(backup, officer, secret, added)

    with untouched(outside):
        refused(opboost, emptied.folder / "bank", backup)
