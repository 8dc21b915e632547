"""Changes to the files of a finished run, each of which breaks a promise."""

import base64
import json
import shutil
import sqlite3
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from opboost_ops.verifier import Outcome, verify
from tests.federation import FIRST_RUN, Workspace

RUN = f"credit_scoring/{FIRST_RUN}"


def place(workspace: Workspace, name: str) -> Path:
    """The folder of an artifact of the first run.

    Args:
        workspace: The federation.
        name: ``<kind>/<party>``.
    """
    return workspace.folder / "exchange" / RUN / name


def resign(workspace: Workspace, name: str, change: Callable[[Any], Any]) -> None:
    """Change an artifact's manifest and sign it again as its publisher.

    Args:
        workspace: The federation.
        name: ``<kind>/<party>``.
        change: Changes the manifest in place.
    """
    folder = place(workspace, name)
    manifest = json.loads((folder / "manifest.json").read_bytes())
    signer = manifest["party"]
    change(manifest)
    write_manifest(workspace.folder, folder, manifest, signer)


def write_manifest(federation: Path, folder: Path, manifest: Any, signer: str) -> None:
    """Write a manifest and a party's signature over it."""
    raw = json.dumps(manifest, sort_keys=True, separators=(",", ":")).encode()
    key = base64.b64decode((federation / signer / "keys/signing.key").read_text())
    (folder / "manifest.json").write_bytes(raw)
    signature = Ed25519PrivateKey.from_private_bytes(key).sign(raw)
    (folder / "manifest.sig").write_bytes(signature)


def replan(folder: Path, party: str, change: Callable[[Any], Any]) -> None:
    """Change the document of the first plan below a folder, and sign it as its party."""
    place = next(iter(sorted((folder / "exchange").glob(f"*/*/plan/{party}"))))
    document = json.loads((place / "document.json").read_bytes())
    change(document)
    raw = json.dumps(document, separators=(",", ":")).encode()
    (place / "document.json").write_bytes(raw)
    manifest = json.loads((place / "manifest.json").read_bytes())
    manifest["files"]["document.json"] = {"sha256": sha256(raw).hexdigest(), "size": len(raw)}
    write_manifest(folder, place, manifest, party)


def flip(path: Path) -> None:
    """Change one bit in the middle of a file."""
    raw = path.read_bytes()
    path.write_bytes(raw[:-100] + bytes([raw[-100] ^ 1]) + raw[-99:])


def damage(workspace: Workspace, name: str) -> None:
    """Cut a manifest off after its first byte."""
    (place(workspace, name) / "manifest.json").write_bytes(b"{")


def copy_artifact(workspace: Workspace, name: str, other: str) -> None:
    """Put an artifact at another place of its run, too."""
    shutil.copytree(place(workspace, name), place(workspace, other))


def broken(outcomes: list[Outcome]) -> set[str]:
    """The names of all broken promises."""
    return {
        promise.name
        for outcome in outcomes
        for promise in outcome.promises
        if promise.status == "broken"
    }


def faults(outcome: Outcome, name: str) -> list[str]:
    """Where a promise is broken."""
    (promise,) = [promise for promise in outcome.promises if promise.name == name]
    return promise.broken


def statuses(outcome: Outcome) -> dict[str, str]:
    """Each promise's status by name."""
    return {promise.name: promise.status for promise in outcome.promises}


def changed(path: Path, change: Callable[[Any], Any]) -> str:
    """Change a JSON file in place; its new text."""
    content = json.loads(path.read_bytes())
    change(content)
    text = json.dumps(content)
    path.write_text(text)
    return text


def executed(party: Path, statement: str) -> None:
    """Change a party's database by hand."""
    with sqlite3.connect(party / "ledger.sqlite") as database:
        database.execute(statement)
    database.close()


def verified(workspace: Workspace, *below: str) -> list[Outcome]:
    """The outcomes of a federation's folder, or of one below it."""
    return verify([workspace.folder.joinpath(*below)])
