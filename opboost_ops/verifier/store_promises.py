"""Promises that anyone who reads a store can check."""

import base64
import hashlib
from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import Any

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from opboost_ops.verifier import sizes
from opboost_ops.verifier.channels import UnknownMechanismError, curve_fault
from opboost_ops.verifier.outcomes import DAMAGED, Outcome, Promise
from opboost_ops.verifier.plans import Plan, canonical
from opboost_ops.verifier.stores import MANIFEST, SIGNATURE, Artifact, Run

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


def check_store(place: str, runs: list[Run], declared: Keys) -> Outcome:
    """Check what a store alone shows.

    Args:
        place: Name of the store, for the report.
        runs: Its runs.
        declared: By federation, the parties of federation files that were found beside it.
    """
    outcome = Outcome(place)
    plans = _plans(outcome, runs)
    pairs = [(run, plans[run.name]) for run in runs if run.name in plans]
    _check_keys(outcome, pairs, declared)
    _check_signatures(outcome, pairs)
    _check_signers(outcome, pairs)
    _check_files(outcome, runs)
    _check_places(outcome, runs)
    _check_order(outcome, pairs)
    _check_columns(outcome, pairs)
    _check_sizes(outcome, pairs)
    _check_losses(outcome, pairs)
    _check_checkpoints(outcome, pairs)
    return outcome


def _plans(outcome: Outcome, runs: list[Run]) -> dict[str, Plan]:
    promise = outcome.promise("plan", "Each run has one plan, which the label holder published.")
    plans = {}
    for run in runs:
        if not promise.check(len(run.plans) == 1, f"{run.name}: {len(run.plans)} plans"):
            continue
        with promise.reading(run.plans[0].place):
            plan = Plan.read(run.plans[0])
            same = plan.federation["name"] == run.federation
            holder = run.plans[0].about == plan.label_holder
            promise.check(same and holder, f"{run.name}: a plan of others")
            plans[run.name] = plan
    return plans


def _artifacts(pairs: list[tuple[Run, Plan]]) -> Iterator[tuple[Artifact, Plan]]:
    for run, plan in pairs:
        for artifact in run.artifacts.values():
            yield artifact, plan


def _check_keys(outcome: Outcome, pairs: list[tuple[Run, Plan]], declared: Keys) -> None:
    promise = outcome.promise(
        "keys", "Plans name the signing keys that the parties have agreed to."
    )
    for run, plan in pairs:
        parties = declared.get(run.federation)
        if parties is None:
            promise.lacks(f"a federation file or agreement of {run.federation}")
            continue
        for name, party in plan.parties.items():
            with promise.reading(run.name):
                known = parties[name]
                keys = {known["signing_key"], *(f["key"] for f in known.get("former_keys", []))}
                keys -= set(known.get("revoked_keys", []))
                # A key that was replaced since is among the former ones.
                promise.check(
                    party["signing_key"] in keys, f"{run.name}: another signing key of {name}"
                )


def _check_signatures(outcome: Outcome, pairs: list[tuple[Run, Plan]]) -> None:
    promise = outcome.promise(
        "signatures", "Each manifest is signed by a key that its publisher declares."
    )
    for artifact, plan in _artifacts(pairs):
        with promise.reading(artifact.place):
            signer = plan.signer(artifact.kind, artifact.about)
            keys = plan.signing_keys(signer)
            signed = any(is_signed(k, artifact.raw, artifact.signature) for k in keys)
            promise.check(signed, f"{artifact.place}: not signed by {signer}")


def _check_signers(outcome: Outcome, pairs: list[tuple[Run, Plan]]) -> None:
    promise = outcome.promise(
        "publishers",
        "Each kind is published by the one party that may, to the declared key of its receiver.",
    )
    for artifact, plan in _artifacts(pairs):
        with promise.reading(artifact.place):
            manifest, kind, about = artifact.manifest, artifact.kind, artifact.about
            promise.check(about in plan.parties, f"{artifact.place}: {about} is no party")
            signer = plan.signer(kind, about)
            promise.check(
                manifest["party"] == signer, f"{artifact.place}: only {signer} may publish it"
            )
            promise.check(
                manifest["encrypted_to"] == plan.encrypted_to(kind, about),
                f"{artifact.place}: not encrypted to its receiver's declared key",
            )


def _check_files(outcome: Outcome, runs: list[Run]) -> None:
    promise = outcome.promise(
        "files",
        "Each artifact has the files that its manifest lists, with their sizes, and no others.",
    )
    digests = outcome.promise("digests", "Each file that lies open has the digest of its manifest.")
    for artifact in _all(runs):
        with promise.reading(artifact.place):
            names = artifact.stored_names
            present = {path.name for path in artifact.folder.iterdir() if path.is_file()}
            promise.check(
                present == {*names.values(), MANIFEST, SIGNATURE},
                f"{artifact.place}: other files than its manifest lists",
            )
            more = 0 if artifact.manifest["encrypted_to"] is None else sizes.OVERHEAD
            for name, stored in names.items():
                size = artifact.manifest["files"][name]["size"]
                path = artifact.folder / stored
                promise.check(
                    path.stat().st_size == size + more, f"{artifact.place}/{stored}: other size"
                )
        with digests.reading(artifact.place):
            if artifact.manifest["encrypted_to"] is not None:
                digests.lacks("the receivers' keys, for encrypted files")
                continue
            for name in artifact.stored_names:
                digests.check(
                    hashlib.sha256(artifact.content(name)).hexdigest()
                    == artifact.manifest["files"][name]["sha256"],
                    f"{artifact.place}/{name}: other content",
                )


def _check_places(outcome: Outcome, runs: list[Run]) -> None:
    promise = outcome.promise(
        "places", "Each artifact lies at the place that it states, and nowhere else."
    )
    seen: dict[str, str] = {}
    for artifact in _all(runs):
        with promise.reading(artifact.place):
            manifest = artifact.manifest
            parts = [manifest[key] for key in ("federation", "run", "kind", "about")]
            parts += [manifest["round"]] if "round" in manifest else []
            promise.check("/".join(parts) == artifact.place, f"{artifact.place}: states another")
            first = seen.setdefault(artifact.digest, artifact.place)
            promise.check(first == artifact.place, f"{artifact.place}: also at {first}")
            fields = set(manifest)
            whole = fields >= _FIELDS and fields <= _FIELDS | _OPTIONAL
            promise.check(
                whole and manifest["version"] == 1 and artifact.is_canonical,
                f"{artifact.place}: its manifest is not in the one form",
            )


def _check_order(outcome: Outcome, pairs: list[tuple[Run, Plan]]) -> None:
    promise = outcome.promise(
        "order", "Each artifact names by digest the one that it answers, which is in its run."
    )
    rows = outcome.promise(
        "rows", "Answers have the row count of what they answer, and a party's tables one count."
    )
    for run, plan in pairs:
        if plan.is_horizontal:
            promise.lacks("the rounds of horizontal learning")
            continue
        answers = plan.answers
        for artifact in run.artifacts.values():
            with promise.reading(artifact.place):
                kind, about = artifact.kind, artifact.about
                if kind == "plan":
                    promise.check(
                        artifact.manifest["answers"] is None, f"{artifact.place}: answers something"
                    )
                    continue
                before = answers.get(kind)
                if not promise.check(before is not None, f"{artifact.place}: no part of its run"):
                    continue
                holder = plan.label_holder if before == "plan" else about
                answered = run.artifacts.get(f"{before}/{holder}")
                promise.check(
                    answered is not None and artifact.manifest["answers"] == answered.digest,
                    f"{artifact.place}: does not answer the {before} of its run",
                )
        _check_rows(rows, run, plan)


def _check_rows(promise: Promise, run: Run, plan: Plan) -> None:
    counts = {}
    for name, artifact in run.artifacts.items():
        with promise.reading(artifact.place):
            counts[name] = artifact.manifest["rows"]
            promise.check(
                type(counts[name]) is int and counts[name] >= 0, f"{artifact.place}: no row count"
            )
    for party in plan.feature_holders:
        for answer, request in (("psi_answer", "psi_query"), ("split_values", "split_request")):
            given, wanted = counts.get(f"{answer}/{party}"), counts.get(f"{request}/{party}")
            if given is not None and wanted is not None:
                promise.check(given == wanted, f"{run.name}/{answer}/{party}: another row count")
        tables = {
            counts[f"{kind}/{party}"]
            for kind in ("ranks", "values", "shares", "routes")
            if f"{kind}/{party}" in counts
        }
        promise.check(len(tables) < 2, f"{run.name}: {party} published tables of several lengths")


def _check_columns(outcome: Outcome, pairs: list[tuple[Run, Plan]]) -> None:
    promise = outcome.promise(
        "columns", "Feature holders publish the columns of the plan, and answer no others."
    )
    for run, plan in pairs:
        if plan.is_horizontal:
            continue
        for artifact in run.artifacts.values():
            kind, about = artifact.kind, artifact.about
            with promise.reading(artifact.place):
                columns = artifact.manifest["columns"]
                if kind in RELEASES:
                    declared = [column.name for column in plan.columns(about)]
                    promise.check(columns == declared, f"{artifact.place}: other columns")
                elif kind in ("split_request", "route_request"):
                    declared = [column.name for column in plan.columns(about)]
                    inside = set(columns) <= set(declared) and len(set(columns)) == len(columns)
                    promise.check(inside, f"{artifact.place}: other columns")
                elif kind in ("split_values", "routes"):
                    request = "split_request" if kind == "split_values" else "route_request"
                    asked = run.artifacts[f"{request}/{about}"].manifest["columns"]
                    promise.check(columns == asked, f"{artifact.place}: other columns")
                else:
                    promise.check(columns == [], f"{artifact.place}: names columns")


def _check_sizes(outcome: Outcome, pairs: list[tuple[Run, Plan]]) -> None:
    promise = outcome.promise(
        "sizes", "File sizes follow from row counts and declared columns, and from nothing else."
    )
    for artifact, plan in _artifacts(pairs):
        with promise.reading(artifact.place):
            for name, file in artifact.manifest["files"].items():
                expected = sizes.expected(plan, artifact, name)
                if expected.unknown:
                    promise.lacks(expected.unknown)
                else:
                    promise.check(
                        expected.admits(file["size"]), f"{artifact.place}/{name}: another size"
                    )


def _check_losses(outcome: Outcome, pairs: list[tuple[Run, Plan]]) -> None:
    promise = outcome.promise(
        "losses",
        "Each release states the loss curve of the channel that the plan declares, and no other "
        "artifact states one.",
    )
    guarantee = outcome.promise(
        "experiments", "All artifacts of a run say alike whether it carries a guarantee."
    )
    for artifact, plan in _artifacts(pairs):
        with guarantee.reading(artifact.place):
            guarantee.check(
                artifact.manifest["experiment"] is plan.artifact.manifest["experiment"],
                f"{artifact.place}: not as its plan",
            )
        with promise.reading(artifact.place):
            losses = artifact.manifest["losses"]
            releases = artifact.kind in RELEASES
            if not releases:
                promise.check(losses == {}, f"{artifact.place}: states losses")
                continue
            check_curves(promise, artifact.place, losses, plan, artifact.about)


def check_curves(
    promise: Promise, where: str, losses: Mapping[str, Any], plan: Plan, party: str
) -> None:
    """Check printed loss curves against the channels that a plan declares.

    Args:
        promise: That they agree.
        where: The place of the curves.
        losses: The printed curves by charge.
        plan: The plan.
        party: The feature holder.
    """
    try:
        charges = plan.charges(party)
    except UnknownMechanismError as error:
        promise.lacks(f"{where}: {error}")
        return
    promise.check(losses.keys() == charges.keys(), f"{where}: curves of other columns")
    for name, curve in losses.items():
        if name in charges:
            charge = charges[name]
            fault = curve_fault(curve, charge.ratios, charge.epsilon, charge.label)
            promise.check(not fault, f"{where}: the curve of {name} {fault}")


def _check_checkpoints(outcome: Outcome, pairs: list[tuple[Run, Plan]]) -> None:
    promise = outcome.promise(
        "checkpoints",
        "Checkpoints are signed by their party, and no number stands for two states.",
    )
    numbers: dict[tuple[str, str, str], dict[int, str]] = defaultdict(dict)
    for artifact, plan in _artifacts(pairs):
        with promise.reading(artifact.place):
            manifest = artifact.manifest
            holder = plan.label_holder
            given = [
                (manifest["party"], plan.receiver(artifact.kind, artifact.about) or holder, head)
                for head in [manifest.get("head")]
                if head is not None
            ]
            seen = manifest.get("seen", {})
            given += [(party, holder, head) for party, head in seen.items()]
            for party, receiver, head in given:
                number, digest = head["number"], head["head"]
                facts = {"party": party, "federation": artifact.federation, "receiver": receiver}
                message = canonical({**facts, "number": number, "head": digest})
                signature = bytes.fromhex(head["signature"])
                keys = plan.signing_keys(party)
                promise.check(
                    any(is_signed(key, message, signature) for key in keys),
                    f"{artifact.place}: the checkpoint of {party} is not signed by it",
                )
                key = (artifact.federation, party, receiver)
                first = numbers[key].setdefault(number, digest)
                promise.check(
                    first == digest, f"{artifact.place}: {party} gave number {number} twice"
                )


def is_signed(key: str, message: bytes, signature: bytes) -> bool:
    """Whether the holder of an Ed25519 key signed a message.

    Args:
        key: The public key, base64.
        message: The signed bytes.
        signature: The signature.
    """
    try:
        Ed25519PublicKey.from_public_bytes(base64.b64decode(key)).verify(signature, message)
    except (InvalidSignature, *DAMAGED):
        return False
    return True


def _all(runs: list[Run]) -> Iterator[Artifact]:
    for run in runs:
        yield from run.artifacts.values()
