"""Promises that anyone who reads a store can check."""

import base64
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from opboost_ops.verifier import places
from opboost_ops.verifier.channels import curve_fault
from opboost_ops.verifier.outcomes import DAMAGED, Check, NotCheckableError
from opboost_ops.verifier.places import Artifact, Artifacts, canonical, sha256
from opboost_ops.verifier.plans import FEW, OVERHEAD, RELEASES, ROUNDS, STEP, Plan, padded

#: Fields of a manifest; those behind the others are left out where they are empty.
_FIELDS = frozenset(
    {"version", "protocol", "federation", "run", "kind", "party", "about", "answers", "columns"}
    | {"rows", "losses", "releases", "files", "encrypted_to", "experiment", "software"}
)
_OPTIONAL = frozenset({"round", "head", "seen"})

#: By federation, party and receiver, the state of each number of a checkpoint that was seen.
States = dict[tuple[str, str, str], dict[int, str]]


def check_plan(artifacts: Artifacts) -> Iterator[Check]:
    """Each run has one plan, which the label holder published."""
    yield [artifact.kind for artifact in artifacts.values()].count("plan") == 1, "not one plan"
    plan = Plan.read(artifacts)
    name, publisher = plan.federation["name"], plan.artifact.about
    yield name == plan.artifact.federation, "a plan of another federation"
    yield publisher == plan.label_holder, "a plan of another party"


def check_keys(plan: Plan, federations: Mapping[str, Mapping[str, Any]]) -> Iterator[Check]:
    """Plans name keys that the parties have agreed to, and no others."""
    name = plan.federation["name"]
    if name not in federations:
        raise NotCheckableError(f"a federation file of {name}")
    for party, planned in plan.parties.items():
        declared = federations[name]["parties"][party]
        revoked = declared.get("revoked_keys", [])
        # A key that was replaced since is among the former ones.
        agreed = {declared["signing_key"], declared.get("encryption_key"), *revoked}
        agreed |= {former["key"] for former in declared.get("former_keys", [])}
        named = {*plan.signing_keys(party), planned.get("encryption_key")}
        yield named - {None} <= agreed, f"another key of {party}"
        if planned["signing_key"] in revoked:
            # Its owner signed with it before the revocation, and a thief could have.
            yield None, f"a signing key of {party} that nobody has revoked since"


def check_strays(folder: Path, runs: Mapping[str, Artifacts]) -> Iterator[Check]:
    """Nothing lies in the store but the files of artifacts."""
    folders = {artifact.folder for artifacts in runs.values() for artifact in artifacts.values()}
    for path in folder.rglob("*") if runs else ():
        name = path.relative_to(folder).as_posix()
        # Hidden names are of the store's identity, and of writers that crashed.
        if path.is_file() and path.name != places.PUBLISHED and not re.search(r"(^|/)\.", name):
            yield path.parent in folders, f"{name} is in no artifact"


def check_signatures(artifact: Artifact, plan: Plan) -> Iterator[Check]:
    """Each manifest is signed by a key that its publisher declares."""
    signer = plan.signer(artifact.kind, artifact.about)
    keys, signature = plan.signing_keys(signer, run_day=True), artifact.folder / places.SIGNATURE
    yield _is_signed(keys, artifact.raw, places.read_small(signature)), f"not signed by {signer}"


def check_publishers(artifact: Artifact, plan: Plan) -> Iterator[Check]:
    """Each kind is published by the one party that may, to its receiver's declared key."""
    yield artifact.about in plan.parties, f"{artifact.about} is no party"
    signer, key = plan.signer(artifact.kind, artifact.about), plan.receiver_key(artifact)
    yield artifact.manifest["party"] == signer, f"only {signer} may publish it"
    name = sha256(base64.b64decode(key))[:16] if key else None
    is_declared = artifact.manifest["encrypted_to"] == name
    yield is_declared, "not encrypted to its receiver's declared key"


def check_files(artifact: Artifact, _: Plan) -> Iterator[Check]:
    """Each artifact has the files that its manifest lists, with their sizes, and no others."""
    present = {path.name for path in artifact.folder.iterdir() if path.is_file()}
    listed = {path.name for path in artifact.stored.values()}
    yield (
        present == listed | {places.MANIFEST, places.SIGNATURE},
        "other files than its manifest lists",
    )
    for name, path in artifact.stored.items():
        size = artifact.manifest["files"][name]["size"]
        stored = size + OVERHEAD if artifact.is_encrypted else size
        yield path.stat().st_size == stored, f"{name} has another size"


def check_digests(artifact: Artifact, _: Plan) -> Iterator[Check]:
    """Each file that lies open has the digest of its manifest."""
    if artifact.is_encrypted:
        raise NotCheckableError("the receivers' keys, for encrypted files")
    for name, path in artifact.stored.items():
        digest = artifact.manifest["files"][name]["sha256"]
        yield sha256(path.read_bytes()) == digest, f"{name} has other content"


def check_places(artifact: Artifact, plan: Plan) -> Iterator[Check]:
    """Each artifact lies at the place that it states, and nowhere else."""
    manifest = artifact.manifest
    stated = [manifest[key] for key in ("federation", "run", "kind", "about")]
    stated += [manifest["round"]] if "round" in manifest else []
    yield "/".join(stated) == artifact.place, "states another place"
    yield ("round" in manifest) == (artifact.kind in ROUNDS), "a round, or none"
    is_whole = _FIELDS <= manifest.keys() <= _FIELDS | _OPTIONAL and manifest["version"] == 1
    is_canonical = canonical(manifest) == artifact.raw
    yield is_whole and is_canonical, "its manifest is not in the one form"
    yield manifest["protocol"] == plan.document["protocol"], "of another protocol than its plan"


def check_order(artifact: Artifact, plan: Plan) -> Iterator[Check]:
    """Each artifact names by digest the one that it answers, which is in its run."""
    kind, answers = artifact.kind, artifact.manifest["answers"]
    if kind == "plan":
        yield answers is None, "answers something"
        return
    before = plan.answers.get(kind)
    yield before is not None, "no part of its run"
    if plan.is_horizontal:
        yield answers == _answered_round(artifact, plan), "does not answer the round before"
        return
    place = f"{before}/{plan.label_holder if before == 'plan' else artifact.about}"
    is_named = place in plan.artifacts and answers == plan.artifacts[place].digest
    yield is_named, f"does not answer the {before} of its run"


def _answered_round(artifact: Artifact, plan: Plan) -> str:
    """The digest that a round answers: of the plan, of plan and keys, or of the last decision."""
    if artifact.kind == "round_key":
        return plan.artifact.digest
    published = plan.artifacts.values()
    decided = {other.round: other.digest for other in published if other.kind == "decision"}
    if before := [name for name in sorted(decided) if name < artifact.round]:
        return decided[before[-1]]
    keys = sorted([other.about, other.digest] for other in published if other.kind == "round_key")
    session = [artifact.federation, artifact.run, plan.artifact.digest, keys]
    return sha256(json.dumps(session).encode())


def check_rows(artifact: Artifact, plan: Plan) -> Iterator[Check]:
    """Answers have the row count of what they answer, and a party's tables one count."""
    rows, kind = artifact.manifest["rows"], artifact.kind
    yield type(rows) is int and rows >= 0, "no row count"
    tables = ("ranks", "values", "shares", "routes")
    same = {"psi_answer": ("psi_query",), "split_values": ("split_request",)}
    for other in tables if kind in tables else same.get(kind, ()):
        if (another := plan.artifacts.get(f"{other}/{artifact.about}")) is not None:
            yield rows == another.manifest["rows"], f"another row count than {other}"


def check_columns(artifact: Artifact, plan: Plan) -> Iterator[Check]:
    """Feature holders publish the columns of the plan, and answer no others."""
    kind, about, columns = artifact.kind, artifact.about, artifact.manifest["columns"]
    requests = {"split_values": "split_request", "routes": "route_request"}
    if kind in RELEASES:
        holds = columns == [column.name for column in plan.columns(about)]
    elif kind in requests.values():
        declared = {column.name for column in plan.columns(about)}
        holds = set(columns) <= declared and len(set(columns)) == len(columns)
    elif kind in requests:
        holds = columns == plan.artifacts[f"{requests[kind]}/{about}"].manifest["columns"]
    else:
        holds = columns == []
    yield holds, "other columns"


def check_sizes(artifact: Artifact, plan: Plan) -> Iterator[Check]:
    """File sizes follow from row counts and declared columns, and from nothing else."""
    manifest, is_encrypted = artifact.manifest, artifact.is_encrypted
    rows, columns = manifest["rows"], len(manifest["columns"])
    for name, file in manifest["files"].items():
        size = file["size"]
        if name != places.DOCUMENT:
            content = plan.content_size(artifact)
            holds = size == (padded(content, rows, columns) if is_encrypted else content)
        elif not is_encrypted:
            yield None, "sizes of documents that lie open"
            continue
        else:
            # A document of few rows is smaller than the least size.
            least = padded(0, rows, columns)
            holds = size == least if rows < FEW else size >= least and size % STEP == 0
        yield holds, f"{name} has another size"


def check_losses(artifact: Artifact, plan: Plan) -> Iterator[Check]:
    """Each release states the loss curve of its declared channel; nothing else states one."""
    losses = artifact.manifest["losses"]
    if artifact.kind not in RELEASES:
        yield losses == {}, "states losses"
        return
    charges = {column.charge: column for column in plan.columns(artifact.about)}
    yield losses.keys() == charges.keys(), "curves of other columns"
    for name, curve in losses.items():
        charge = charges[name]
        fault = curve_fault(curve, charge.ratios, charge.epsilon, charge.label)
        yield not fault, f"the curve of {name} {fault}"


def check_experiments(artifact: Artifact, plan: Plan) -> Iterator[Check]:
    """All artifacts of a run say alike whether it carries a guarantee."""
    planned = plan.artifact.manifest["experiment"]
    yield artifact.manifest["experiment"] is planned, "not as its plan"


def check_checkpoints(artifact: Artifact, plan: Plan, states: States) -> Iterator[Check]:
    """Checkpoints are signed by their party, and no number stands for two states."""
    manifest = artifact.manifest
    # In a session the checkpoint beside a party's key stands for all its messages.
    is_given = "head" in manifest or artifact.kind in ("masked", "decision")
    yield is_given, "without a checkpoint"
    heads = [(party, plan.label_holder, head) for party, head in manifest.get("seen", {}).items()]
    if "head" in manifest:
        receiver = plan.receiver(artifact) or plan.label_holder
        heads.append((manifest["party"], receiver, manifest["head"]))
    for party, receiver, head in heads:
        signed = {"party": party, "federation": artifact.federation, "receiver": receiver}
        signed |= {"number": head["number"], "head": head["head"]}
        message, signature = canonical(signed), bytes.fromhex(head["signature"])
        if _is_signed(plan.parties[party].get("revoked_keys", []), message, signature):
            yield None, f"a checkpoint of {party} under a key that is not revoked"
        else:
            is_signed = _is_signed(plan.signing_keys(party), message, signature)
            yield is_signed, f"the checkpoint of {party} is not signed by it"
        numbers = states.setdefault((artifact.federation, party, receiver), {})
        first = numbers.setdefault(head["number"], head["head"])
        yield first == head["head"], f"{party} gave one number twice"


def _is_signed(keys: Iterable[str], message: bytes, signature: bytes) -> bool:
    """True if the holder of one of some Ed25519 keys, base64, signed a message."""
    for key in keys:
        try:
            Ed25519PublicKey.from_public_bytes(base64.b64decode(key)).verify(signature, message)
        except (InvalidSignature, *DAMAGED):
            continue
        return True
    return False


#: The promises about each artifact of a store, in the order of their report.
ABOUT_ARTIFACTS = (
    *(check_signatures, check_publishers, check_files, check_digests, check_places, check_order),
    *(check_rows, check_columns, check_sizes, check_losses, check_experiments),
)
