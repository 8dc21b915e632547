"""Promises that a feature holder can check: its artifacts follow from pins, secret and plan."""

import base64
import json
from bisect import bisect_right
from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np
import pyarrow.feather as feather

from opboost_ops.verifier import sealed_rows
from opboost_ops.verifier.outcomes import Check, NotCheckableError
from opboost_ops.verifier.party_promises import OwnRecords
from opboost_ops.verifier.places import DOCUMENT, Artifact, canonical
from opboost_ops.verifier.plans import Column, Plan
from opboost_ops.verifier.sealed_rows import CANARY, derive_key


def check_pins(own: OwnRecords) -> Iterator[Check]:
    """Each open release has its complete pin file, and each pin file belongs to a release."""
    published = {r for a, _ in own.published for r in a.manifest["releases"].values()}
    for release in own.state.releases.values():
        if release.ended:
            yield not release.pins, f"{release.feature} still has pins of an ended release"
        elif release.pins or release.id in published:
            path = own.pins / release.pins
            content = path.read_bytes() if path.is_file() else b""
            is_whole = sealed_rows.pin_digest(own.secret, content) == release.digest
            yield is_whole, f"the pin file of {release.feature} is missing or was changed"
    files = {release.pins for release in own.state.releases.values()}
    for path in sorted(own.pins.glob("*.pins")):
        yield path.name in files, f"{path.name} belongs to no release"


def check_forgotten(own: OwnRecords) -> Iterator[Check]:
    """No pin file has a forgotten person."""
    for release in own.state.releases.values():
        if release.pins:
            content = (own.pins / release.pins).read_bytes()
            people, _ = sealed_rows.read_pins(own.secret, content, release.rows, [])
            is_erased = own.state.forgotten.isdisjoint(people)
            yield is_erased, f"the pins of {release.feature} include forgotten people"


def check_responses(own: OwnRecords, artifact: Artifact, plan: Plan) -> Iterator[Check]:
    """Published rows follow, byte for byte, from the pins, the plan and the secret."""
    if artifact.kind in ("routes", "shares"):
        raise NotCheckableError(f"a derivation of {artifact.kind}")
    columns = plan.columns(own.party.name)
    responses = _pinned_responses(own, plan, artifact, columns)
    codes = []
    for column in columns:
        values = responses[column.name]
        if artifact.kind == "ranks":
            codes.append(np.searchsorted(_rank_values(plan, column, values), values) + 1)
        else:
            codes.append(values - min(column.outputs) + 1)
    width = plan.row_width(own.party.name)
    rows = [*sealed_rows.pack_rows(codes, [column.size for column in columns]), bytes(width)]
    messages = [*sealed_rows.encode_ids(_ids(own, plan)), CANARY]
    zeros = _own_zero_shares(own, plan, messages)
    people = list(map(b"".join, zip(_points(own, plan, messages), zeros, messages, strict=True)))
    key = derive_key(own.secret, "seal:content")
    body = _exponent_seed(own, plan) + sealed_rows.content_hash(key, messages, rows)
    place = f"{plan.run}/{plan.artifact.digest}"
    name = f"{artifact.kind}-z" if plan.has_shares else artifact.kind
    nonce, entries = sealed_rows.seal_table(own.secret, name, place, body, people, rows)
    document = canonical({"nonce": nonce.hex(), "width": width}, sort_keys=False)
    yield _compare(own, plan, artifact, {DOCUMENT: document} | sealed_rows.to_files(entries))


def _pinned_responses(
    own: OwnRecords, plan: Plan, artifact: Artifact, columns: list[Column]
) -> dict[str, np.ndarray]:
    """The pinned responses of all people in a run's table, by column."""
    hashes = sealed_rows.hash_people(derive_key(own.secret, "people"), tuple(_ids(own, plan)))
    by_column: dict[str, np.ndarray] = {}
    for feature, name in artifact.manifest["releases"].items():
        release = own.state.releases.get(name)
        if release is None or not release.pins:
            raise NotCheckableError("pins of ended releases")
        content = (own.pins / release.pins).read_bytes()
        own_columns = [column for column in columns if column.feature == feature]
        people, responses = sealed_rows.read_pins(own.secret, content, release.rows, own_columns)
        if own.state.forgotten and not people.keys() >= set(hashes):
            raise NotCheckableError("rows of people who were forgotten after the run")
        rows = np.array([people[person] for person in hashes], dtype=np.int64)
        by_column |= {column: values[rows] for column, values in responses.items()}
    return by_column


def check_splits(own: OwnRecords, artifact: Artifact, plan: Plan) -> Iterator[Check]:
    """Split values follow, byte for byte, from the published ranks."""
    party = own.party.name
    request = json.loads(own.open_file(plan.artifacts[f"split_request/{party}"], plan))
    columns = plan.columns(party)
    responses = _pinned_responses(own, plan, plan.artifacts[f"ranks/{party}"], columns)
    # The value of each rank, by column.
    tables = {column.name: _rank_values(plan, column, responses[column.name]) for column in columns}
    document = {
        "splits": {
            name: {str(rank): _midpoint(plan, party, name, tables[name], rank) for rank in ranks}
            for name, ranks in request["splits"].items()
        },
        "ranks": {
            name: [bisect_right(tables[name], threshold) for threshold in thresholds]
            for name, thresholds in request["thresholds"].items()
        },
    }
    yield _compare(own, plan, artifact, {DOCUMENT: canonical(document, sort_keys=False)})


def _rank_values(plan: Plan, column: Column, values: np.ndarray) -> list[int]:
    """The value of each rank."""
    return list(map(int, np.unique(column.outputs if plan.numbers_outputs else values)))


def _midpoint(plan: Plan, party: str, name: str, table: list[int], rank: int) -> float:
    """Halfway between the values of a rank and of the next, or between the ends of buckets."""
    (_, end), (begin, _) = (plan.span(party, name, value) for value in table[rank - 1 : rank + 1])
    return (float(end) + float(begin)) / 2


def check_answers(own: OwnRecords, artifact: Artifact, plan: Plan) -> Iterator[Check]:
    """Each answered point is the queried point multiplied by the party's exponent for the run."""
    query = plan.artifacts[f"psi_query/{own.party.name}"]
    exponent = derive_key(_exponent_seed(own, plan), "psi:evaluate")
    files = {
        name: b"".join(sealed_rows.multiply_points(exponent, own.open_file(query, plan, name)))
        for name in query.manifest["files"]
    }
    yield _compare(own, plan, artifact, files)


def _compare(own: OwnRecords, plan: Plan, artifact: Artifact, files: Mapping[str, bytes]) -> Check:
    """Compare derived files with those of an artifact in the store."""
    key = plan.receiver_key(artifact)
    derived = dict(sealed_rows.encrypt_files(own.secret, key, artifact, files) if key else files)
    stored = {name: path.read_bytes() for name, path in artifact.stored.items()}
    return derived == stored, "its files differ from those derived from the party's own files"


def _read_month_key(own: OwnRecords, plan: Plan) -> bytes:
    secret = own.party.path("secret", "keys/noise.secret") or Path()
    path = secret.parent / "psi" / f"{plan.document['epoch']}.key"
    if not path.is_file():
        raise NotCheckableError("keys of past months, which were deleted")
    return path.read_bytes()


def _exponent_seed(own: OwnRecords, plan: Plan) -> bytes:
    """The seed of the party's exponent in a run."""
    place = f"psi:exponent:{plan.federation['name']}:{plan.label_holder}"
    return derive_key(_read_month_key(own, plan), place)


def _ids(own: OwnRecords, plan: Plan) -> list[str | int]:
    """The IDs in the run's copy of the party's table."""
    return list(feather.read_table(own.home_file(plan, "ids.arrow")).column(0).to_pylist())


def _points(own: OwnRecords, plan: Plan, messages: list[bytes]) -> list[bytes]:
    """The points of people, from the party's file for the month."""
    home = own.home_file(plan, "ids.arrow").parent.parent
    cache = f"own-{plan.label_holder}"
    path = home / "points" / f"{plan.document['epoch']}-{cache}.points"
    if not path.is_file():
        raise NotCheckableError("points of past months, which were deleted")
    table = np.frombuffer(path.read_bytes(), np.uint8).reshape(-1, 48)
    points = {row[:16].tobytes(): row[16:].tobytes() for row in table}
    key = derive_key(_read_month_key(own, plan), f"psi:cache:{plan.artifact.federation}:{cache}")
    return [points[digest] for digest in sealed_rows.cmacs(key, messages)]


def _own_zero_shares(own: OwnRecords, plan: Plan, messages: list[bytes]) -> list[bytes]:
    """The party's shares of zero for its own rows; all zeros if the run has no shares."""
    me, pairs = own.party.name, []
    for other in plan.feature_holders if plan.has_shares else ():
        public = plan.parties[other].get("encryption_key")
        if other != me and public:
            first, second = sorted((me, other))
            place = f"{plan.run}/{plan.artifact.digest}/{first}/{second}"
            point = base64.b64decode(public)
            (shared,) = sealed_rows.multiply_points(own.encryption_key(plan), point)
            pairs.append(derive_key(shared, f"psi:share:{place}"))
    return sealed_rows.zero_shares(pairs, messages, plan.feature_holders.index(me))
