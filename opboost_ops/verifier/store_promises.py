"""Promises that anyone can check who can read the store."""

import base64
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from opboost_ops.verifier import places
from opboost_ops.verifier.channels import loss_curve_fault
from opboost_ops.verifier.outcomes import READ_ERRORS, Check, NotCheckableError
from opboost_ops.verifier.places import Artifact, Artifacts, canonical, sha256
from opboost_ops.verifier.plans import MIN_ROWS, OVERHEAD, RELEASES, ROUNDS, STEP, Plan, padded_size

#: Fields of a manifest, and fields that are omitted if they are empty.
_FIELDS = frozenset(
    {"version", "protocol", "federation", "run", "kind", "party", "about", "answers", "columns"}
    | {"rows", "losses", "releases", "files", "encrypted_to", "experiment", "software"}
)
_OPTIONAL = frozenset({"round", "head", "seen"})

#: The digest of each checkpoint number, by federation, party and receiver.
States = dict[tuple[str, str, str], dict[int, str]]


def check_plan(artifacts: Artifacts) -> Iterator[Check]:
    """Each run has exactly one plan, published by the label holder."""
    yield [a.kind for a in artifacts.values()].count("plan") == 1, "it has no plan, or several"
    plan = Plan.read(artifacts)
    name, publisher = plan.federation["name"], plan.artifact.about
    yield name == plan.artifact.federation, "its plan is for another federation"
    yield publisher == plan.label_holder, "its plan is at the place of another party"


def check_keys(plan: Plan, federations: Mapping[str, Mapping[str, Any]]) -> Iterator[Check]:
    """The keys in plans are those that the federation file declares."""
    name = plan.federation["name"]
    if name not in federations:
        raise NotCheckableError(f"the federation file of {name}")
    for party, planned in plan.parties.items():
        if (declared := federations[name]["parties"].get(party)) is None:
            yield None, f"the keys of {party}, which has left {name}"
            continue
        revoked = declared.get("revoked_keys", [])
        # Keys that were replaced after the run are listed as former keys.
        declared_keys = {declared["signing_key"], declared.get("encryption_key"), *revoked}
        declared_keys |= {former["key"] for former in declared.get("former_keys", [])}
        planned_keys = {*plan.signing_keys(party), planned.get("encryption_key")}
        yield planned_keys - {None} <= declared_keys, f"it has an undeclared key of {party}"
        if planned["signing_key"] in revoked:
            # Both the owner, before the revocation, and a thief may have signed with it.
            yield None, f"a signing key of {party} that was not revoked after the run"


def check_strays(folder: Path, runs: Mapping[str, Artifacts]) -> Iterator[Check]:
    """The store contains only files of artifacts."""
    folders = {artifact.folder for artifacts in runs.values() for artifact in artifacts.values()}
    # In a bucket, an artifact's files are in a hidden folder beside the file that names it.
    pointers = {at.parent / places.PUBLISHED for at in folders if at.name.startswith(".")}
    for path in folder.rglob("*"):
        name, is_link = path.relative_to(folder).as_posix(), path.is_symlink()
        # Hidden files are the store's identity and leftovers of writers that crashed.
        if (is_link or not path.is_dir()) and not re.search(r"(^|/)\.", name):
            is_in_artifact = path.parent in folders or path in pointers
            is_own = is_in_artifact and path.is_file() and not is_link
            yield is_own, f"{name} does not belong to an artifact"


def check_signatures(artifact: Artifact, plan: Plan) -> Iterator[Check]:
    """Each manifest is signed with a declared key of its publisher."""
    signer = plan.signer(artifact.kind, artifact.about)
    keys, signature = plan.signing_keys(signer, run_day=True), artifact.folder / places.SIGNATURE
    yield _is_signed(keys, artifact.raw, places.read_small(signature)), f"not signed by {signer}"


def check_publishers(artifact: Artifact, plan: Plan) -> Iterator[Check]:
    """Each artifact is from the only party that may publish it, and to its receiver's key."""
    yield artifact.about in plan.parties, f"{artifact.about} is not a party of the plan"
    signer, key = plan.signer(artifact.kind, artifact.about), plan.receiver_key(artifact)
    yield artifact.manifest["party"] == signer, f"only {signer} may publish it"
    fingerprint = sha256(base64.b64decode(key))[:16] if key else None
    is_declared = artifact.manifest["encrypted_to"] == fingerprint
    yield is_declared, "it is not encrypted to its receiver's declared key"


def check_files(artifact: Artifact, _: Plan) -> Iterator[Check]:
    """Each artifact has exactly the files that its manifest lists, with their sizes."""
    present = {path.name for path in artifact.folder.iterdir() if path.is_file()}
    listed = {path.name for path in artifact.stored.values()} | {places.MANIFEST, places.SIGNATURE}
    yield present == listed, "its files are not those that its manifest lists"
    for name, path in artifact.stored.items():
        size = artifact.manifest["files"][name]["size"]
        stored = size + OVERHEAD if artifact.is_encrypted else size
        yield path.stat().st_size == stored, f"{name} does not have its listed size"


def check_digests(artifact: Artifact, _: Plan) -> Iterator[Check]:
    """Each unencrypted file has the digest in its manifest."""
    if artifact.is_encrypted:
        raise NotCheckableError("the receivers' keys, for encrypted files")
    for name, path in artifact.stored.items():
        digest = artifact.manifest["files"][name]["sha256"]
        yield sha256(path.read_bytes()) == digest, f"{name} does not have its listed digest"


def check_places(artifact: Artifact, plan: Plan) -> Iterator[Check]:
    """Each artifact is stored only at the place in its manifest, which is in canonical form."""
    manifest = artifact.manifest
    stated = [manifest[key] for key in ("federation", "run", "kind", "about")]
    stated += [manifest["round"]] if "round" in manifest else []
    yield "/".join(stated) == artifact.place, "its manifest states another place"
    yield ("round" in manifest) == (artifact.kind in ROUNDS), "its kind and its round do not fit"
    is_whole = _FIELDS <= manifest.keys() <= _FIELDS | _OPTIONAL and manifest["version"] == 1
    yield is_whole and canonical(manifest) == artifact.raw, "its manifest is not in canonical form"
    yield manifest["protocol"] == plan.document["protocol"], "its protocol is not the plan's"


def check_order(artifact: Artifact, plan: Plan) -> Iterator[Check]:
    """Each artifact states the digest of the artifact in its run that it answers."""
    kind, answers = artifact.kind, artifact.manifest["answers"]
    if kind == "plan":
        yield answers is None, "a plan answers no artifact, but it states one"
        return
    request = plan.answers.get(kind)
    yield request is not None, "its run has no artifacts of its kind"
    if plan.is_horizontal:
        is_next = answers == _answered_round_digest(artifact, plan)
        yield is_next, "it does not answer the preceding round"
        return
    place = f"{request}/{plan.label_holder if request == 'plan' else artifact.about}"
    is_in_run = place in plan.artifacts and answers == plan.artifacts[place].digest
    yield is_in_run, f"it does not answer the {request} of its run"


def _answered_round_digest(artifact: Artifact, plan: Plan) -> str:
    """The digest that a round answers: the plan's, the plan's and keys', or the last decision's."""
    if artifact.kind == "round_key":
        return plan.artifact.digest
    published = plan.artifacts.values()
    decisions = {other.round: other.digest for other in published if other.kind == "decision"}
    if earlier := [name for name in decisions if name < artifact.round]:
        return decisions[max(earlier)]
    keys = sorted([other.about, other.digest] for other in published if other.kind == "round_key")
    session = [artifact.federation, artifact.run, plan.artifact.digest, keys]
    return sha256(json.dumps(session).encode())


def check_rows(artifact: Artifact, plan: Plan) -> Iterator[Check]:
    """Responses have the row count of their request, and a party's tables share one row count."""
    rows, kind = artifact.manifest["rows"], artifact.kind
    yield type(rows) is int and rows >= 0, "it states no row count"
    tables = ("ranks", "values", "shares", "routes")
    requests = {"psi_answer": ("psi_query",), "split_values": ("split_request",)}
    for other_kind in tables if kind in tables else requests.get(kind, ()):
        if (other := plan.artifacts.get(f"{other_kind}/{artifact.about}")) is not None:
            yield rows == other.manifest["rows"], f"its row count differs from {other_kind}"


def check_columns(artifact: Artifact, plan: Plan) -> Iterator[Check]:
    """Feature holders publish exactly the columns of the plan, or of the request."""
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
    yield holds, "its columns are not those of the plan or the request"


def check_sizes(artifact: Artifact, plan: Plan) -> Iterator[Check]:
    """File sizes depend only on row counts and declared columns."""
    manifest, is_encrypted = artifact.manifest, artifact.is_encrypted
    rows, columns = manifest["rows"], len(manifest["columns"])
    for name, file in manifest["files"].items():
        size = file["size"]
        if name != places.DOCUMENT:
            content = plan.content_size(artifact)
            holds = size == (padded_size(content, rows, columns) if is_encrypted else content)
        elif not is_encrypted:
            yield None, "sizes of unencrypted documents"
            continue
        else:
            # With few rows, every document is smaller than the minimum size.
            least = padded_size(0, rows, columns)
            holds = size == least if rows < MIN_ROWS else size >= least and size % STEP == 0
        yield holds, f"the size of {name} does not follow from rows and columns"


def check_losses(artifact: Artifact, plan: Plan) -> Iterator[Check]:
    """Each release states the loss curves of its declared channels; other artifacts state none."""
    losses = artifact.manifest["losses"]
    if artifact.kind not in RELEASES:
        yield losses == {}, "it states losses, but is not a release"
        return
    charges = {column.charge: column for column in plan.columns(artifact.about)}
    yield losses.keys() == charges.keys(), "its curves are not those of its columns"
    for name, curve in losses.items():
        charge = charges[name]
        fault = loss_curve_fault(curve, charge.ratios, charge.epsilon, charge.label)
        yield not fault, f"the curve of {name} {fault}"


def check_experiments(artifact: Artifact, plan: Plan) -> Iterator[Check]:
    """All artifacts of a run agree on whether the run is an experiment without a guarantee."""
    is_experiment = plan.artifact.manifest["experiment"]
    yield artifact.manifest["experiment"] is is_experiment, "it differs from its plan"


def check_checkpoints(artifact: Artifact, plan: Plan, states: States) -> Iterator[Check]:
    """Checkpoints are signed by their party, and each number stands for a single state."""
    manifest = artifact.manifest
    # In horizontal learning, the checkpoint with a party's round key covers all its messages.
    yield "head" in manifest or artifact.kind in ("masked", "decision"), "it has no checkpoint"
    heads = [(party, plan.label_holder, head) for party, head in manifest.get("seen", {}).items()]
    if "head" in manifest:
        receiver = plan.receiver(artifact) or plan.label_holder
        heads.append((manifest["party"], receiver, manifest["head"]))
    for party, receiver, head in heads:
        signed = {"party": party, "federation": artifact.federation, "receiver": receiver}
        signed |= {"number": head["number"], "head": head["head"]}
        message, signature = canonical(signed), bytes.fromhex(head["signature"])
        if _is_signed(plan.parties[party].get("revoked_keys", []), message, signature):
            yield None, f"a checkpoint of {party} signed with a key that is not revoked"
        else:
            is_signed = _is_signed(plan.signing_keys(party), message, signature)
            yield is_signed, f"the checkpoint of {party} has no valid signature"
        numbers = states.setdefault((artifact.federation, party, receiver), {})
        first = numbers.setdefault(head["number"], head["head"])
        yield first == head["head"], f"{party} used the number of another checkpoint again"


def _is_signed(keys: Iterable[str], message: bytes, signature: bytes) -> bool:
    """True if the signature of a message is valid under any of the Ed25519 keys, base64."""
    for key in keys:
        with suppress(*READ_ERRORS):
            Ed25519PublicKey.from_public_bytes(base64.b64decode(key)).verify(signature, message)
            return True
    return False


#: The checks of each artifact in a store, in the order of the report.
ARTIFACT_CHECKS = (
    *(check_signatures, check_publishers, check_files, check_digests, check_places, check_order),
    *(check_rows, check_columns, check_sizes, check_losses, check_experiments),
)
