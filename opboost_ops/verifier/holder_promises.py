"""Promises of a feature holder: what it published follows from its pins, secret and plan alone."""

import bisect
import json
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.feather as feather

from opboost_ops.verifier import plans, sealed_rows
from opboost_ops.verifier.outcomes import DAMAGED, Check, Outcome
from opboost_ops.verifier.party_promises import OwnSide
from opboost_ops.verifier.party_state import Release
from opboost_ops.verifier.places import Artifact, Run
from opboost_ops.verifier.plans import Column, Plan


class NotCheckableError(Exception):
    """Something is not there that a check needs."""


@dataclass(frozen=True)
class Holder:
    """A feature holder with its keys.

    Attributes:
        own: The party.
        secret: Its secret.
        encryption_keys: Its private encryption keys, the newest first.
    """

    own: OwnSide
    secret: bytes
    encryption_keys: list[bytes]

    def encryption_key(self, plan: Plan) -> bytes:
        """The private half of the key that a plan declares."""
        declared = plan.parties[self.own.party.name].get("encryption_key")
        for key in self.encryption_keys:
            if sealed_rows.public_key(key) == declared:
                return key
        raise NotCheckableError("the encryption key of the time")

    def month_key(self, plan: Plan) -> bytes:
        """The key of a run's month."""
        secret = self.own.party.path("secret", "keys/noise.secret")
        month = plan.document.get("epoch", "")
        folder = Path() if secret is None else secret.parent / "psi"
        with suppress(OSError):
            return (folder / f"{month}.key").read_bytes()
        raise NotCheckableError("keys of past months, which are deleted")

    def exponent(self, plan: Plan) -> bytes:
        """The input that determines the party's exponent of a run."""
        place = f"psi:exponent:{plan.federation['name']}:{plan.label_holder}"
        return sealed_rows.keyed_by(self.month_key(plan), place)

    def home(self, run: Run) -> Path:
        """The party's private folder of a run."""
        home = self.own.party.path("home", "home") or Path()
        return home / run.federation / run.run

    @cached_property
    def pin_folder(self) -> Path:
        """Where pin files lie."""
        return self.own.party.path("pins", "pins") or Path()


def check_holder(outcome: Outcome, own: OwnSide) -> None:
    """Check what a feature holder can check with its own home."""
    outcome.promise(_queries).run(_queries(own), "queries")
    derivations: dict[Callable[..., Any], tuple[str, ...]] = {
        _responses: ("ranks", "values"),
        _splits: ("split_values",),
        _answers: ("psi_answer",),
    }
    pins, *promises = [outcome.promise(check) for check in (_pins, *derivations)]
    try:
        holder = _holder(own)
    except DAMAGED:
        for promise in (pins, *promises):
            promise.run([(None, "the party's secret and encryption key in files")])
        return
    pins.run(_pins(holder), "pins")
    if own.state.forgotten:
        outcome.promise(_forgotten).run(_forgotten(holder), "pins")
    for artifact, run, plan in own.published:
        for promise, (derive, kinds) in zip(promises, derivations.items(), strict=True):
            if artifact.kind in kinds:
                promise.run(_derived(derive, holder, run, plan, artifact), artifact.place)
        if artifact.kind in ("routes", "shares"):
            promises[0].run([(None, f"{artifact.kind}, which are not derived again")])


def _derived(
    derive: Callable[[Holder, Run, Plan, Artifact], dict[str, bytes]],
    holder: Holder,
    run: Run,
    plan: Plan,
    artifact: Artifact,
) -> Iterator[Check]:
    try:
        files = derive(holder, run, plan, artifact)
    except NotCheckableError as missing:
        yield None, str(missing)
        return
    published = {name: artifact.content(name) for name in artifact.stored_names}
    yield files == published, "not what follows from the party's own files"


def _holder(own: OwnSide) -> Holder:
    secret = own.party.path("secret", "keys/noise.secret")
    key = own.party.path("encryption_key", "keys/encryption.key")
    if secret is None or key is None:
        raise ValueError("no files")
    content = secret.read_bytes()
    if sealed_rows.fingerprint(content) != own.state.secret:
        raise ValueError("another secret")
    paths = [key, *sorted(key.parent.glob(f"{key.name}.until-*"))]
    return Holder(own, content, [sealed_rows.read_private_key(path) for path in paths])


def _queries(own: OwnSide) -> Iterator[Check]:
    """Every answered query is counted, within the caps on different people."""
    counted = {query for _, _, query, _ in own.state.asked}
    for artifact, *_ in own.published:
        if artifact.kind == "psi_answer":
            yield artifact.manifest["answers"] in counted, f"{artifact.place} is not counted"
    months: dict[tuple[str, str], int] = defaultdict(int)
    everybody: dict[str, int] = defaultdict(int)
    for receiver, month, _, people in own.state.asked:
        months[receiver, month] += people
        everybody[receiver] += people
    caps = own.party.policy.get("alignment") or {}
    for cap, counts in (
        (caps.get("max_new_queries"), months.values()),
        (caps.get("max_queries_total"), everybody.values()),
    ):
        yield cap is None or max(counts, default=0) <= cap, f"more than the cap of {cap}"


def _pins(holder: Holder) -> Iterator[Check]:
    """Each open release has its pin file, whole, and no pin is without a release."""
    releases = holder.own.state.releases.values()
    for release in releases:
        if release.ended:
            yield not release.pins, f"{release.feature} has pins of an ended release"
        elif release.pins:
            path = holder.pin_folder / release.pins
            whole = path.is_file() and release.digest == sealed_rows.pin_digest(
                holder.secret, path.read_bytes()
            )
            yield whole, f"{release.feature} has another pin file than the database points to"
    files = {release.pins for release in releases}
    for path in sorted(holder.pin_folder.glob("*.pins")):
        yield path.name in files, f"{path.name} is without a release"


def _forgotten(holder: Holder) -> Iterator[Check]:
    """Nobody on the list of the forgotten has a pin."""
    for release in holder.own.state.releases.values():
        if release.pins:
            content = (holder.pin_folder / release.pins).read_bytes()
            people, _ = sealed_rows.read_pins(holder.secret, content, release.rows, [])
            absent = holder.own.state.forgotten.isdisjoint(people)
            yield absent, f"{release.feature} has pins of people who were forgotten"


def _responses(holder: Holder, run: Run, plan: Plan, artifact: Artifact) -> dict[str, bytes]:
    """Published rows are, byte for byte, those that follow from pins, plan and secret."""
    party = holder.own.party.name
    columns = plan.columns(party)
    responses = _pinned(holder, run, artifact, columns)
    present = {name: np.unique(values) for name, values in responses.items()}
    codes = []
    for column in columns:
        values = responses[column.name]
        if artifact.kind == "ranks" and not _has_domain_ranks(plan):
            codes.append(np.searchsorted(present[column.name], values) + 1)
        else:
            first = column.inputs[0] if artifact.kind == "ranks" else min(column.outputs)
            codes.append(values - first + 1)
    ids = _ids(holder, run)
    column_sizes = [column.size for column in columns]
    rows = sealed_rows.packed(codes, column_sizes, len(ids))
    rows.append(bytes(plans.row_width(plan, party)))
    messages = [*sealed_rows.messages_of(ids), sealed_rows.CANARY]
    exponent = holder.exponent(plan)
    people = sealed_rows.People(
        messages, _points(holder, run, plan, messages), _zeros(holder, run, plan, messages)
    )
    key = sealed_rows.keyed_by(holder.secret, "seal:content")
    body = exponent + sealed_rows.content_hash(key, messages, rows)
    place = f"{run.name}/{plan.artifact.digest}"
    nonce, entries = sealed_rows.sealed(holder.secret, artifact.kind, place, body, people, rows)
    document = {"nonce": nonce.hex(), "width": plans.row_width(plan, party)}
    files = {"document.json": _compact(document), **_parts(entries)}
    return _as_stored(holder, plan, artifact, files)


def _pinned(
    holder: Holder, run: Run, artifact: Artifact, columns: list[Column]
) -> dict[str, np.ndarray]:
    """The pinned responses of everybody in a run's table, by column."""
    ids = tuple(_ids(holder, run))
    hashes = sealed_rows.person_hashes(sealed_rows.keyed_by(holder.secret, "people"), ids)
    before = None
    by_column: dict[str, np.ndarray] = {}
    for feature, name in artifact.manifest["releases"].items():
        release: Release | None = holder.own.state.releases.get(name)
        if release is None or not release.pins:
            raise NotCheckableError("pins of ended releases")
        content = (holder.pin_folder / release.pins).read_bytes()
        mine = [column for column in columns if column.feature == feature]
        people, responses = sealed_rows.read_pins(holder.secret, content, release.rows, mine)
        if people is not before:
            before = people
            if any(person not in people for person in hashes) and holder.own.state.forgotten:
                raise NotCheckableError("rows of people who were forgotten since")
            at = np.array([people[person] for person in hashes], dtype=np.int64)
        by_column |= {column: values[at] for column, values in responses.items()}
    return by_column


def _splits(holder: Holder, run: Run, plan: Plan, artifact: Artifact) -> dict[str, bytes]:
    """Split values follow from the published ranks, byte for byte."""
    party = holder.own.party.name
    request = run.artifacts[f"split_request/{party}"]
    raw = request.content("document.json")
    if request.manifest["encrypted_to"] is not None:
        key = holder.encryption_key(plan)
        raw = sealed_rows.opened(raw, key, request.digest, "document.json")
    wanted = json.loads(raw)
    columns = plan.columns(party)
    ranks = run.artifacts[f"ranks/{party}"]
    responses = _pinned(holder, run, ranks, columns)
    tables = {column.name: _present(plan, column, responses[column.name]) for column in columns}
    values = {
        name: {str(rank): _midpoint(plan, party, name, tables[name], rank) for rank in splits}
        for name, splits in wanted["splits"].items()
    }
    below = {
        name: [bisect.bisect_right(tables[name], threshold) for threshold in thresholds]
        for name, thresholds in wanted["thresholds"].items()
    }
    document = _compact({"splits": values, "ranks": below})
    return _as_stored(holder, plan, artifact, {"document.json": document})


def _present(plan: Plan, column: Column, values: np.ndarray) -> list[int]:
    """The value that each rank stands for."""
    if _has_domain_ranks(plan):
        return list(column.inputs)
    present: list[int] = np.unique(values).tolist()
    return present


def _midpoint(plan: Plan, party: str, name: str, table: list[int], rank: int) -> float:
    """Halfway between what two ranks stand for; a bucket counts by its nearer end."""
    (_, end), (begin, _) = (plan.span(party, name, table[at]) for at in (rank - 1, rank))
    return (float(end) + float(begin)) / 2


def _answers(holder: Holder, run: Run, plan: Plan, artifact: Artifact) -> dict[str, bytes]:
    """Answered points are the queried ones under the party's exponent of the month."""
    query = run.artifacts[f"psi_query/{holder.own.party.name}"]
    exponent = sealed_rows.keyed_by(holder.exponent(plan), "psi:evaluate")
    files = {}
    for name in query.manifest["files"]:
        raw = query.content(name)
        if query.manifest["encrypted_to"] is not None:
            raw = sealed_rows.opened(raw, holder.encryption_key(plan), query.digest, name)
        files[name] = sealed_rows.multiplied(exponent, raw)
    return _as_stored(holder, plan, artifact, files)


def _ids(holder: Holder, run: Run) -> list[object]:
    """The IDs of a run's own copy of the table."""
    path = holder.home(run) / "ids.arrow"
    if not path.is_file():
        raise NotCheckableError("the home folders of runs that were removed")
    ids: list[object] = feather.read_table(path).column(0).to_pylist()
    return ids


def _points(holder: Holder, run: Run, plan: Plan, messages: list[bytes]) -> list[bytes]:
    """The points of people, from the party's own file of the month."""
    path = holder.home(run).parent / "points" / f"{plan.document.get('epoch')}-own.points"
    if not path.is_file():
        raise NotCheckableError("points of past months, which are deleted")
    table = np.frombuffer(path.read_bytes(), np.uint8).reshape(-1, 48)
    points = {row[:16].tobytes(): row[16:].tobytes() for row in table}
    key = sealed_rows.keyed_by(holder.month_key(plan), f"psi:cache:{run.federation}:own")
    return [points[sealed_rows.cmac(key, message)] for message in messages]


def _zeros(holder: Holder, run: Run, plan: Plan, messages: list[bytes]) -> list[bytes] | None:
    """The party's shares for itself; None without shares."""
    if not plan.has_shares:
        return None
    me, pairs = holder.own.party.name, []
    for other in plan.feature_holders:
        public = plan.parties[other].get("encryption_key")
        if other != me and public:
            first, second = sorted((me, other))
            place = f"{run.name}/{plan.artifact.digest}/{first}/{second}"
            shared = sealed_rows.shared_key(holder.encryption_key(plan), public)
            pairs.append(sealed_rows.keyed_by(shared, f"psi:share:{place}"))
    return sealed_rows.sharings(pairs, messages, plan.feature_holders.index(me))


def _parts(entries: list[bytes]) -> dict[str, bytes]:
    """Entries as files: cut by their first bits if they are many."""
    parts = plans.part_count(len(entries))
    if parts == 1:
        return {"entries.bin": b"".join(entries)}
    shift = 16 - (parts.bit_length() - 1)
    cut: dict[str, list[bytes]] = {f"entries-{i:04}.bin": [] for i in range(parts)}
    for entry in entries:
        cut[f"entries-{int.from_bytes(entry[:2], 'big') >> shift:04}.bin"].append(entry)
    return {name: b"".join(part) for name, part in cut.items()}


def _as_stored(
    holder: Holder, plan: Plan, artifact: Artifact, files: Mapping[str, bytes]
) -> dict[str, bytes]:
    """Files as they lie in the store, encrypted if their receiver has a key."""
    receiver = plan.receiver(artifact.kind, artifact.about)
    key = plan.parties[receiver].get("encryption_key") if receiver else None
    if key is None:
        return dict(files)
    envelope = sealed_rows.Envelope(holder.secret, key)
    rows, columns = artifact.manifest["rows"], len(artifact.manifest["columns"])
    stored = {}
    for name, content in files.items():
        salted = envelope.salted(content, artifact.place, name, rows, columns)
        stored[name] = envelope.encrypted(salted, artifact.digest, name)
    return stored


def _has_domain_ranks(plan: Plan) -> bool:
    """True if ranks are the domain's own codes, as for private training."""
    return bool(plan.federation.get("training", {}).get("trainer") == "dpboost")


def _compact(document: Mapping[str, Any]) -> bytes:
    return json.dumps(document, separators=(",", ":"), allow_nan=False).encode()
