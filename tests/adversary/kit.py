"""What a hostile party does: it signs whatever it likes, with its real keys, at every field."""

import hashlib
import json
import shutil
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from opboost_ops.config.agreement import digest_of, document
from opboost_ops.config.loading import load_site, parse_federation
from opboost_ops.errors import PolicyError
from opboost_ops.exchange.encryption import Envelope
from opboost_ops.exchange.files import salted
from opboost_ops.exchange.manifest import (
    MANIFEST,
    SIGNATURE,
    File,
    Kind,
    Manifest,
    receiver_of,
    sender_of,
)
from opboost_ops.exchange.signing import Signer
from opboost_ops.pipeline.party.inbox import MEMORY
from tests.federation import Workspace
from tests.party_state import state_of

#: Receiver of what is in summaries, as ledgers name it.
EVERYBODY = "everyone who sees the run"


def planned(workspace: Workspace) -> dict[str, Any]:
    """The document of the plan that lies in the store."""
    label = workspace.declared.label_holder
    files = workspace.store.get(f"credit_scoring/{workspace.run}/plan/{label}")
    assert files is not None
    found: dict[str, Any] = json.loads(files["document.json"])
    return found


def forge_plan(
    workspace: Workspace,
    change: Callable[[Any], Any] = lambda federation: None,
    agreed: str = "own",
    **entries: Any,
) -> None:
    """Put a changed plan, really signed by the label holder, in the place of the honest one.

    It is the first that any party sees. Who signs it uses software of their own, so the label
    holder's home does not know the run either.

    Args:
        workspace: The federation, whose run is open.
        change: Changes the plan's federation in place.
        agreed: Digest of its agreement; that of its own federation for ``own``, and
            that of the honest plan if empty.
        **entries: Other entries of the plan.
    """
    plan = planned(workspace)
    change(plan["federation"])
    declared = parse_federation(plan["federation"], "plan")
    label = declared.label_holder
    if agreed:
        plan["agreement"] = digest_of(document(declared)) if agreed == "own" else agreed
    workspace.forge("plan", label, label, document={**plan, **entries})
    (workspace.home(label) / f"{MEMORY}.json").unlink(missing_ok=True)


def refusal(workspace: Workspace, party: str, stage: str = "check_table") -> str:
    """What is seen outside when a party refuses, with its tables out of reach."""
    tables = workspace.folder / party / "tables"
    tables.rename(tables.with_name("away"))
    try:
        with pytest.raises(PolicyError) as refused:
            workspace.step(party, stage)
    finally:
        tables.with_name("away").rename(tables)
    assert refused.value.__cause__ is None
    return str(refused.value)


def released(workspace: Workspace, party: str) -> Any:
    """What a party has charged for what it released, and the bytes of its pins.

    Without the entry that a run has for its failures' one message: a refusal may be that message.
    """
    with state_of(workspace, party) as state:
        lines = [e for e in state.ledger.entries() if e.kind not in ("check_table", "open_rows")]
    return lines, workspace.files(party, "pins")


def of_run(workspace: Workspace, party: str) -> list[tuple[str, str, str]]:
    """What a party's ledger says of the present run: account, kind, receiver."""
    with state_of(workspace, party) as state:
        found = [line for line in state.ledger.entries() if line.run == workspace.run]
    return [(line.account, line.kind, line.receiver) for line in found]


def send(
    workspace: Workspace,
    kind: Kind,
    about: str,
    contents: Mapping[str, bytes] | None = None,
    /,
    **manifest: Any,
) -> None:
    """Put an artifact, really signed by its sender, in the place of the honest one.

    Args:
        workspace: The federation.
        kind: Of the artifact.
        about: The party it is about.
        contents: Its files before encryption, of any form; those of the honest one when absent.
        **manifest: Fields of the manifest as they are to be, of any form.
    """
    label = workspace.declared.label_holder
    place = f"credit_scoring/{workspace.run}/{kind}/{about}"
    honest = workspace.artifact(kind, about)
    data = json.loads(honest.manifest.to_bytes())
    del data["files"]
    sender = load_site(workspace.folder / sender_of(kind, about, label) / "site.yaml")
    envelope, receiver = None, receiver_of(kind, about, label)
    if honest.manifest.encrypted_to:
        key = workspace.declared.parties[str(receiver)].encryption_key
        envelope = Envelope(sender.read_secret(), key)
    raw = dict(contents) if contents is not None else dict(honest.files)
    raw = {name: content for name, content in raw.items() if name not in (MANIFEST, SIGNATURE)}
    signer = Signer.from_file(sender.signing_key)
    _, files = signed(honest.manifest, raw, signer, envelope, {**data, **manifest})
    replace(workspace, place, files)


def signed(
    honest: Manifest,
    contents: Mapping[str, bytes],
    signer: Signer,
    envelope: Envelope | None,
    data: Mapping[str, Any],
) -> tuple[dict[str, File], dict[str, bytes]]:
    """A message of any form, really signed and encrypted.

    Args:
        honest: The manifest of the honest message at its place.
        contents: The files before encryption.
        signer: The sender's.
        envelope: How files are encrypted; None where they lie as they are.
        data: The manifest's fields. Files are listed as they are, if nothing else is said.

    Returns:
        The files' entries, and what is to lie at the place.
    """
    raw = dict(contents)
    if envelope is not None:
        place = honest.reference
        raw = {
            name: salted(content, envelope.salt(place, name), honest.rows, 1)
            for name, content in raw.items()
        }
    listed = {
        name: File(sha256=hashlib.sha256(content).hexdigest(), size=len(content))
        for name, content in raw.items()
    }
    files = {name: file.model_dump() for name, file in listed.items()}
    head = json.dumps({"files": files, **data}, sort_keys=True, separators=(",", ":")).encode()
    digest = hashlib.sha256(head).hexdigest()
    if envelope is not None:
        raw = {f"{name}.enc": envelope.encrypt(c, digest, name) for name, c in raw.items()}
    return listed, {**raw, MANIFEST: head, SIGNATURE: signer.sign(head)}


def replace(workspace: Workspace, place: str, files: Mapping[str, bytes]) -> None:
    """Put files into a place of the store, whatever lies there; nothing at all if there are none.

    Args:
        workspace: The federation.
        place: In its store.
        files: By name.
    """
    folder = workspace.folder / "exchange" / place
    shutil.rmtree(folder, ignore_errors=True)
    if files:
        folder.mkdir(parents=True)
    for name, content in files.items():
        (folder / name).write_bytes(content)
