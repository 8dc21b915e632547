"""Promises that anyone who reads a store can check."""

import base64
import hashlib
import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from opboost_ops.verifier.channels import UnknownMechanismError, curve_fault
from opboost_ops.verifier.outcomes import DAMAGED, Check, Outcome
from opboost_ops.verifier.places import MANIFEST, SIGNATURE, Artifact, Run
from opboost_ops.verifier.plans import OVERHEAD, NotKnownError, Plan, canonical, is_expected

#: Fields of a manifest; those behind the others are left out where they are empty.
_FIELDS = frozenset(
    {"version", "protocol", "federation", "run", "kind", "party", "about", "answers", "columns"}
    | {"rows", "losses", "releases", "files", "encrypted_to", "experiment", "software"}
)
_OPTIONAL = frozenset({"round", "head", "seen"})

#: Kinds that release randomised cells, and so state what they cost.
RELEASES = frozenset({"ranks", "values"})

#: By federation, party and use, the public keys that somebody other than the plan vouches for.
Keys = Mapping[str, Mapping[str, Mapping[str, Any]]]


class Seen(NamedTuple):
    """Earlier artifacts: a place by digest; by party, federation and receiver, numbered states."""

    places: dict[str, str]
    numbers: dict[tuple[str, str, str], dict[int, str]]


class Published(NamedTuple):
    """An artifact with its run, the run's plan, and what was seen before it."""

    artifact: Artifact
    run: Run
    plan: Plan
    seen: Seen


def check_store(place: str, runs: list[Run], declared: Keys) -> Outcome:
    """Check what a store alone shows.

    Args:
        place: Name of the store, for the report.
        runs: Its runs.
        declared: By federation, the parties of federation files that were found beside it.
    """
    outcome = Outcome(place)
    plans: dict[str, Plan] = {}
    promise = outcome.promise(_plan)
    for run in runs:
        promise.run(_plan(run, plans), run.name)
    promise = outcome.promise(_keys)
    for name, read in plans.items():
        promise.run(_keys(read, declared), name)
    digests = Seen({}, defaultdict(dict))
    for check in (
        *(_signatures, _publishers, _files, _digests, _places, _order),
        *(_rows, _columns, _sizes, _losses, _experiments, _checkpoints),
    ):
        promise = outcome.promise(check)
        for run in runs:
            for artifact in run.artifacts.values() if run.name in plans else ():
                published = Published(artifact, run, plans[run.name], digests)
                promise.run(check(published), artifact.place)
    return outcome


def _plan(run: Run, plans: dict[str, Plan]) -> Iterator[Check]:
    """Each run has one plan, which the label holder published."""
    plans_of_run = [artifact for artifact in run.artifacts.values() if artifact.kind == "plan"]
    yield len(plans_of_run) == 1, "not one plan"
    for artifact in plans_of_run[:1]:
        plan = Plan.read(artifact)
        yield plan.federation["name"] == run.federation, "a plan of another federation"
        yield artifact.about == plan.label_holder, "a plan of another party"
        plans[run.name] = plan


def _keys(plan: Plan, declared: Keys) -> Iterator[Check]:
    """Plans name the signing keys that the parties have agreed to."""
    name = plan.federation["name"]
    if name not in declared:
        yield None, f"a federation file of {name}"
        return
    for party, its in plan.parties.items():
        keys_declared = declared[name][party]
        # A key that was replaced since is among the former ones.
        keys = {
            keys_declared["signing_key"],
            *(former["key"] for former in keys_declared.get("former_keys", [])),
        }
        if its["signing_key"] in keys_declared.get("revoked_keys", []):
            # Its owner signed with it before the revocation, and a thief could have.
            yield None, f"a signing key of {party} that nobody has revoked since"
            continue
        yield its["signing_key"] in keys, f"another signing key of {party}"


def _signatures(its: Published) -> Iterator[Check]:
    """Each manifest is signed by a key that its publisher declares."""
    artifact, plan = its.artifact, its.plan
    signer = plan.signer(artifact.kind, artifact.about)
    keys = plan.signing_keys(signer, run_day=True)
    yield is_signed(keys, artifact.raw, artifact.signature), f"not signed by {signer}"


def _publishers(its: Published) -> Iterator[Check]:
    """Each kind is published by the one party that may, to its receiver's declared key."""
    artifact, plan = its.artifact, its.plan
    kind, about = artifact.kind, artifact.about
    yield about in plan.parties, f"{about} is no party"
    signer, encrypted_to = plan.signer(kind, about), plan.encrypted_to(kind, about)
    yield artifact.manifest["party"] == signer, f"only {signer} may publish it"
    declared = artifact.manifest["encrypted_to"] == encrypted_to
    yield declared, "not encrypted to its receiver's declared key"


def _files(its: Published) -> Iterator[Check]:
    """Each artifact has the files that its manifest lists, with their sizes, and no others."""
    artifact = its.artifact
    names = artifact.stored_names
    present = {path.name for path in artifact.folder.iterdir() if path.is_file()}
    listed = {*names.values(), MANIFEST, SIGNATURE}
    yield present == listed, "other files than its manifest lists"
    more = 0 if artifact.manifest["encrypted_to"] is None else OVERHEAD
    for name, stored in names.items():
        size = artifact.manifest["files"][name]["size"] + more
        yield (artifact.folder / stored).stat().st_size == size, f"{stored} has another size"


def _digests(its: Published) -> Iterator[Check]:
    """Each file that lies open has the digest of its manifest."""
    artifact = its.artifact
    if artifact.manifest["encrypted_to"] is not None:
        yield None, "the receivers' keys, for encrypted files"
        return
    for name in artifact.stored_names:
        digest = hashlib.sha256(artifact.content(name)).hexdigest()
        yield digest == artifact.manifest["files"][name]["sha256"], f"{name} has other content"


def _places(its: Published) -> Iterator[Check]:
    """Each artifact lies at the place that it states, and nowhere else."""
    artifact, manifest = its.artifact, its.artifact.manifest
    parts = [manifest[key] for key in ("federation", "run", "kind", "about")]
    parts += [manifest["round"]] if "round" in manifest else []
    yield "/".join(parts) == artifact.place, "states another place"
    first = its.seen.places.setdefault(artifact.digest, artifact.place)
    yield first == artifact.place, f"also at {first}"
    whole = manifest.keys() >= _FIELDS and manifest.keys() <= _FIELDS | _OPTIONAL
    canonical_form = whole and manifest["version"] == 1 and artifact.is_canonical
    yield canonical_form, "its manifest is not in the one form"


def _order(its: Published) -> Iterator[Check]:
    """Each artifact names by digest the one that it answers, which is in its run."""
    artifact, run, plan, _ = its
    kind, answers = artifact.kind, artifact.manifest["answers"]
    if kind == "plan":
        yield answers is None, "answers something"
    elif plan.is_horizontal:
        yield answers == answered_round(run, plan, artifact), "does not answer the round before"
    else:
        before = plan.answers.get(kind)
        yield before is not None, "no part of its run"
        holder = plan.label_holder if before == "plan" else artifact.about
        request = run.artifacts.get(f"{before}/{holder}")
        named = request is not None and answers == request.digest
        yield named, f"does not answer the {before} of its run"


def answered_round(run: Run, plan: Plan, artifact: Artifact) -> str:
    """The digest that a message of horizontal learning answers.

    Keys answer the plan; the first round the session, which is made of the plan and all keys; and
    each later round the decision of the one before.
    """
    if artifact.kind == "round_key":
        return plan.artifact.digest
    own_round = artifact.place.rpartition("/")[2]
    decided = {
        name.rpartition("/")[2]: other.digest
        for name, other in run.artifacts.items()
        if other.kind == "decision"
    }
    before = [name for name in sorted(decided) if name < own_round]
    if before:
        return decided[before[-1]]
    keys = sorted((a.about, a.digest) for a in run.artifacts.values() if a.kind == "round_key")
    session = json.dumps([run.federation, run.run, plan.artifact.digest, keys])
    return hashlib.sha256(session.encode()).hexdigest()


def _rows(its: Published) -> Iterator[Check]:
    """Answers have the row count of what they answer, and a party's tables one count."""
    artifact, run = its.artifact, its.run
    rows, kind, about = artifact.manifest["rows"], artifact.kind, artifact.about
    yield type(rows) is int and rows >= 0, "no row count"
    tables = ("ranks", "values", "shares", "routes")
    same = {"psi_answer": ("psi_query",), "split_values": ("split_request",)}
    for other in tables if kind in tables else same.get(kind, ()):
        if (another := run.artifacts.get(f"{other}/{about}")) is not None:
            yield rows == another.manifest["rows"], f"another row count than {other}"


def _columns(its: Published) -> Iterator[Check]:
    """Feature holders publish the columns of the plan, and answer no others."""
    artifact, run, plan, _ = its
    kind, about, columns = artifact.kind, artifact.about, artifact.manifest["columns"]
    if kind in RELEASES:
        holds = columns == [column.name for column in plan.columns(about)]
    elif kind in ("split_request", "route_request"):
        declared = {column.name for column in plan.columns(about)}
        holds = set(columns) <= declared and len(set(columns)) == len(columns)
    elif kind in ("split_values", "routes"):
        request = "split_request" if kind == "split_values" else "route_request"
        holds = columns == run.artifacts[f"{request}/{about}"].manifest["columns"]
    else:
        holds = columns == []
    yield holds, "other columns"


def _sizes(its: Published) -> Iterator[Check]:
    """File sizes follow from row counts and declared columns, and from nothing else."""
    artifact, plan = its.artifact, its.plan
    for name in artifact.manifest["files"]:
        try:
            yield is_expected(plan, artifact, name), f"{name} has another size"
        except NotKnownError as unknown:
            yield None, str(unknown)


def _losses(its: Published) -> Iterator[Check]:
    """Each release states the loss curve of its declared channel; nothing else states one."""
    artifact, plan = its.artifact, its.plan
    losses = artifact.manifest["losses"]
    if artifact.kind not in RELEASES:
        yield losses == {}, "states losses"
        return
    try:
        charges = plan.charges(artifact.about)
    except UnknownMechanismError as error:
        yield None, str(error)
        return
    yield losses.keys() == charges.keys(), "curves of other columns"
    for name, curve in losses.items():
        charge = charges[name]
        fault = curve_fault(curve, charge.ratios, charge.epsilon, charge.label)
        yield not fault, f"the curve of {name} {fault}"


def _experiments(its: Published) -> Iterator[Check]:
    """All artifacts of a run say alike whether it carries a guarantee."""
    artifact, plan = its.artifact, its.plan
    planned = plan.artifact.manifest["experiment"]
    yield artifact.manifest["experiment"] is planned, "not as its plan"


def _checkpoints(its: Published) -> Iterator[Check]:
    """Checkpoints are signed by their party, and no number stands for two states."""
    artifact, plan = its.artifact, its.plan
    manifest, holder = artifact.manifest, plan.label_holder
    receiver = plan.receiver(artifact.kind, artifact.about) or holder
    checkpoints = [(party, holder, head) for party, head in manifest.get("seen", {}).items()]
    if "head" in manifest:
        checkpoints.append((manifest["party"], receiver, manifest["head"]))
    for party, to, head in checkpoints:
        number, digest = head["number"], head["head"]
        place = {"party": party, "federation": artifact.federation, "receiver": to}
        message = canonical({**place, "number": number, "head": digest})
        signature = bytes.fromhex(head["signature"])
        signed = is_signed(plan.signing_keys(party), message, signature)
        if not signed and is_signed(
            plan.parties[party].get("revoked_keys", []), message, signature
        ):
            yield None, f"a checkpoint of {party} under a key that is not revoked"
        else:
            yield signed, f"the checkpoint of {party} is not signed by it"
        first = its.seen.numbers[artifact.federation, party, to].setdefault(number, digest)
        yield first == digest, f"{party} gave number {number} twice"


def is_signed(keys: Iterable[str], message: bytes, signature: bytes) -> bool:
    """True if the holder of one of some Ed25519 keys, base64, signed a message."""
    for key in keys:
        try:
            Ed25519PublicKey.from_public_bytes(base64.b64decode(key)).verify(signature, message)
        except (InvalidSignature, *DAMAGED):
            continue
        return True
    return False
