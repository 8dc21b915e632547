"""Promises of a feature holder: what it published follows from its pins, secret and plan alone."""

import base64
import json
from bisect import bisect_right
from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np
import pyarrow.feather as feather

from opboost_ops.verifier import sealed_rows
from opboost_ops.verifier.outcomes import Check, NotCheckableError
from opboost_ops.verifier.party_promises import OwnSide
from opboost_ops.verifier.places import DOCUMENT, Artifact, canonical
from opboost_ops.verifier.plans import Column, Plan
from opboost_ops.verifier.sealed_rows import CANARY, keyed_by


def check_pins(own: OwnSide) -> Iterator[Check]:
    """Each open release has its pin file, whole, and no pin is without a release."""
    published = {r for a, _ in own.published for r in a.manifest["releases"].values()}
    for release in own.state.releases.values():
        if release.ended:
            yield not release.pins, f"{release.feature} has pins of an ended release"
        elif release.pins or release.id in published:
            path = _pin_folder(own) / release.pins
            content = path.read_bytes() if path.is_file() else b""
            is_whole = sealed_rows.pin_digest(own.secret, content) == release.digest
            yield is_whole, f"{release.feature} has another pin file than the database points to"
    files = {release.pins for release in own.state.releases.values()}
    for path in sorted(_pin_folder(own).glob("*.pins")):
        yield path.name in files, f"{path.name} is without a release"


def check_forgotten(own: OwnSide) -> Iterator[Check]:
    """Nobody on the list of the forgotten has a pin."""
    for release in own.state.releases.values():
        if release.pins:
            content = (_pin_folder(own) / release.pins).read_bytes()
            people, _ = sealed_rows.read_pins(own.secret, content, release.rows, [])
            absent = own.state.forgotten.isdisjoint(people)
            yield absent, f"{release.feature} has pins of people who were forgotten"


def check_responses(own: OwnSide, artifact: Artifact, plan: Plan) -> Iterator[Check]:
    """Published rows are, byte for byte, those that follow from pins, plan and secret."""
    if artifact.kind in ("routes", "shares"):
        raise NotCheckableError(f"{artifact.kind}, which are not derived again")
    columns = plan.columns(own.party.name)
    responses = _pinned(own, plan, artifact, columns)
    codes = []
    for column in columns:
        values = responses[column.name]
        if artifact.kind == "ranks" and not plan.has_domain_ranks:
            codes.append(np.searchsorted(np.unique(values), values) + 1)
        else:
            first = column.inputs[0] if artifact.kind == "ranks" else min(column.outputs)
            codes.append(values - first + 1)
    width = plan.row_width(own.party.name)
    rows = [*sealed_rows.packed(codes, [column.size for column in columns]), bytes(width)]
    messages = [*sealed_rows.messages_of(_ids(own, plan)), CANARY]
    zeros = _zeros(own, plan, messages)
    people = list(map(b"".join, zip(_points(own, plan, messages), zeros, messages, strict=True)))
    key = keyed_by(own.secret, "seal:content")
    body = _exponent(own, plan) + sealed_rows.content_hash(key, messages, rows)
    place = f"{plan.run}/{plan.artifact.digest}"
    name = f"{artifact.kind}-z" if plan.has_shares else artifact.kind
    nonce, entries = sealed_rows.sealed(own.secret, name, place, body, people, rows)
    document = canonical({"nonce": nonce.hex(), "width": width}, sort_keys=False)
    yield _published(own, plan, artifact, {DOCUMENT: document} | sealed_rows.parts(entries))


def _pinned(
    own: OwnSide, plan: Plan, artifact: Artifact, columns: list[Column]
) -> dict[str, np.ndarray]:
    """The pinned responses of everybody in a run's table, by column."""
    hashes = sealed_rows.person_hashes(keyed_by(own.secret, "people"), tuple(_ids(own, plan)))
    by_column: dict[str, np.ndarray] = {}
    for feature, name in artifact.manifest["releases"].items():
        release = own.state.releases.get(name)
        if release is None or not release.pins:
            raise NotCheckableError("pins of ended releases")
        content = (_pin_folder(own) / release.pins).read_bytes()
        mine = [column for column in columns if column.feature == feature]
        people, responses = sealed_rows.read_pins(own.secret, content, release.rows, mine)
        if own.state.forgotten and not people.keys() >= set(hashes):
            raise NotCheckableError("rows of people who were forgotten since")
        at = np.array([people[person] for person in hashes], dtype=np.int64)
        by_column |= {column: values[at] for column, values in responses.items()}
    return by_column


def check_splits(own: OwnSide, artifact: Artifact, plan: Plan) -> Iterator[Check]:
    """Split values follow from the published ranks, byte for byte."""
    party = own.party.name
    wanted = json.loads(own.opened(plan.artifacts[f"split_request/{party}"], plan))
    columns = plan.columns(party)
    responses = _pinned(own, plan, plan.artifacts[f"ranks/{party}"], columns)
    #: By column, the value that each rank stands for.
    tables = {
        column.name: list(column.inputs)
        if plan.has_domain_ranks
        else np.unique(responses[column.name]).tolist()
        for column in columns
    }
    document = {
        "splits": {
            name: {str(rank): _midpoint(plan, party, name, tables[name], rank) for rank in ranks}
            for name, ranks in wanted["splits"].items()
        },
        "ranks": {
            name: [bisect_right(tables[name], threshold) for threshold in thresholds]
            for name, thresholds in wanted["thresholds"].items()
        },
    }
    yield _published(own, plan, artifact, {DOCUMENT: canonical(document, sort_keys=False)})


def _midpoint(plan: Plan, party: str, name: str, table: list[int], rank: int) -> float:
    """Halfway between what two ranks stand for; a bucket counts by its nearer end."""
    (_, end), (begin, _) = (plan.span(party, name, table[at]) for at in (rank - 1, rank))
    return (float(end) + float(begin)) / 2


def check_answers(own: OwnSide, artifact: Artifact, plan: Plan) -> Iterator[Check]:
    """Answered points are the queried ones under the party's exponent of the month."""
    query = plan.artifacts[f"psi_query/{own.party.name}"]
    exponent = keyed_by(_exponent(own, plan), "psi:evaluate")
    files = {
        name: b"".join(sealed_rows.multiplied(exponent, own.opened(query, plan, name)))
        for name in query.manifest["files"]
    }
    yield _published(own, plan, artifact, files)


def _published(own: OwnSide, plan: Plan, artifact: Artifact, files: Mapping[str, bytes]) -> Check:
    """Compare files that were derived again with those of an artifact in the store."""
    key = plan.receiver_key(artifact)
    derived = dict(sealed_rows.encrypted(own.secret, key, artifact, files) if key else files)
    stored = {name: path.read_bytes() for name, path in artifact.stored.items()}
    return derived == stored, "not what follows from the party's own files"


def _pin_folder(own: OwnSide) -> Path:
    return own.party.path("pins", "pins") or Path()


def _month_key(own: OwnSide, plan: Plan) -> bytes:
    secret = own.party.path("secret", "keys/noise.secret") or Path()
    path = secret.parent / "psi" / f"{plan.document['epoch']}.key"
    if not path.is_file():
        raise NotCheckableError("keys of past months, which are deleted")
    return path.read_bytes()


def _exponent(own: OwnSide, plan: Plan) -> bytes:
    """The input that determines the party's exponent of a run."""
    place = f"psi:exponent:{plan.federation['name']}:{plan.label_holder}"
    return keyed_by(_month_key(own, plan), place)


def _ids(own: OwnSide, plan: Plan) -> list[str | int]:
    """The IDs of a run's own copy of the table."""
    ids: list[str | int] = (
        feather.read_table(own.home_file(plan, "ids.arrow")).column(0).to_pylist()
    )
    return ids


def _points(own: OwnSide, plan: Plan, messages: list[bytes]) -> list[bytes]:
    """The points of people, from the party's own file of the month."""
    home = own.home_file(plan, "ids.arrow").parent.parent
    path = home / "points" / f"{plan.document['epoch']}-own.points"
    if not path.is_file():
        raise NotCheckableError("points of past months, which are deleted")
    table = np.frombuffer(path.read_bytes(), np.uint8).reshape(-1, 48)
    points = {row[:16].tobytes(): row[16:].tobytes() for row in table}
    key = keyed_by(_month_key(own, plan), f"psi:cache:{plan.artifact.federation}:own")
    return [points[digest] for digest in sealed_rows.cmacs(key, messages)]


def _zeros(own: OwnSide, plan: Plan, messages: list[bytes]) -> list[bytes]:
    """The party's shares for itself; zeros without shares."""
    me, pairs = own.party.name, []
    for other in plan.feature_holders if plan.has_shares else ():
        public = plan.parties[other].get("encryption_key")
        if other != me and public:
            first, second = sorted((me, other))
            place = f"{plan.run}/{plan.artifact.digest}/{first}/{second}"
            point = base64.b64decode(public)
            (shared,) = sealed_rows.multiplied(own.encryption_key(plan), point)
            pairs.append(keyed_by(shared, f"psi:share:{place}"))
    return sealed_rows.sharings(pairs, messages, plan.feature_holders.index(me))
