"""Federations that find their common people privately, and what of it lies in the store."""

from pathlib import Path

import numpy as np
import pytest

from opboost_ops.config.loading import load_site
from opboost_ops.exchange.encryption import Envelope
from opboost_ops.exchange.manifest import parse_manifest
from opboost_ops.exchange.salting import unsalted
from tests.federation import Workspace
from tests.unit.stages.test_whole_runs import NAME, dataset


def private(
    folder: Path, monkeypatch: pytest.MonkeyPatch, parties: int = 1, **options: object
) -> Workspace:
    made = dataset("binary", parties=parties)
    workspace = Workspace.write(folder / "federation", made, alignment="private", **options)
    workspace.known_to(monkeypatch)
    return workspace


def published(workspace: Workspace, kind: str) -> np.ndarray:
    """What lies in the store, opened by the one who sent it."""
    (found,) = published_parts(workspace, kind)
    return found


def published_parts(workspace: Workspace, kind: str) -> list[np.ndarray]:
    """The same, part by part."""
    sender, receiver = ("a", "b0") if kind == "psi_query" else ("b0", "a")
    files = workspace.store.get(f"{NAME}/{workspace.run}/{kind}/b0")
    assert files is not None
    manifest = parse_manifest(files["manifest.json"], kind)
    public = workspace.declared.parties[receiver].encryption_key
    secret = load_site(workspace.folder / sender / "site.yaml").noise_secret()
    envelope, found = Envelope(secret, str(public)), []
    for name in sorted(name for name in manifest.files if name.startswith("entries")):
        raw = envelope.decrypt(files[f"{name}.enc"], manifest.digest, name)
        entries = np.frombuffer(unsalted(raw, kind), dtype=np.uint8)
        found.append(entries.reshape(-1, 16 if kind == "digests" else 32))
    return found


def on_disk(workspace: Workspace) -> None:
    """Let no party hold more than 40 of its 500 people in memory."""
    for party in workspace.declared.parties:
        workspace.edit_yaml(f"{party}/site.yaml", lambda site: site.update(block_rows=40))
