"""Detection of a rolled-back database by the checkpoints that the party itself has signed.

Evidence is a checkpoint under the party's own signature, in its own artifacts in the store or
returned by another party. If the database does not know it, the checkpoint is newer than the
database, so something was released that is not charged. A claim without that signature is no
evidence.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import get_args

from opboost_ops.config.agreement import federation_of
from opboost_ops.config.site import Site
from opboost_ops.errors import ArtifactError, ConfigError
from opboost_ops.exchange.manifest import (
    MANIFEST,
    ROUND_KINDS,
    SIGNATURE,
    Kind,
    Manifest,
    checkpoint_towards,
    is_run_id,
    parse_manifest,
)
from opboost_ops.exchange.party_state import LostDatabase, PartyState, open_state
from opboost_ops.exchange.rejection import Rejected
from opboost_ops.exchange.signing import signed_by
from opboost_ops.exchange.store.reads import heads_alone
from opboost_ops.exchange.store.store import Store, open_store
from opboost_ops.pipeline.party.trust import label_holders, signed_as, store_fault
from opboost_ops.privacy.edge_charges import uncharged
from opboost_ops.privacy.ledger.checkpoints import Checkpoint, signed_bytes

#: Kinds of artifact that checkpoints count: all but those with many artifacts per run.
CHECKPOINTED_KINDS = frozenset(get_args(Kind)) - frozenset(ROUND_KINDS)

#: Kinds with many artifacts per run.
_MANY = frozenset(ROUND_KINDS) - {"round_key"}

#: Number of latest checkpoints whose artifacts are all checked before a run.
_RECENT = 6

#: Remedy for a rolled-back state.
RECOVER = "Restore the newest backup, or charge what is missing with `opboost ledger recover`."


@dataclass(frozen=True)
class Evidence:
    """A checkpoint of the party that its database does not know.

    Attributes:
        federation: Name of the federation.
        receiver: The receiver of the checkpoint.
        checkpoint: The checkpoint.
        where: Location of the evidence.
        manifest: Manifest of the party's artifact with it; None if another party returned it.
    """

    federation: str
    receiver: str
    checkpoint: Checkpoint
    where: str
    manifest: Manifest | None = None


@dataclass(frozen=True)
class Gap:
    """Something that a party's state has lost.

    Attributes:
        lacks: The part of the state; ``open`` for a reservation that was not completed.
        missing: Description of what is missing.
        where: Location of the evidence.
        remedy: How to fix it.
        federation: Name of the federation; empty if unknown or if all are affected.
        run: ID of the run; empty likewise.
        feature: Name of the feature, or of one of its bits; empty likewise.
    """

    lacks: str
    missing: str
    where: str
    remedy: str
    federation: str = ""
    run: str = ""
    feature: str = ""

    def __str__(self) -> str:
        where = self.where.rstrip(".")
        return f"{self.lacks} lacks {self.missing}; known by {where}. {self.remedy}"


def is_genuine(
    keys: Collection[str], party: str, federation: str, receiver: str, checkpoint: Checkpoint
) -> bool:
    """Return True if a party has signed a checkpoint.

    Args:
        keys: All keys that have signed for the party; see `trust.signed_as`.
        party: The supposed signer.
        federation: Name of the federation.
        receiver: The receiver of the checkpoint.
        checkpoint: The checkpoint.
    """
    message = signed_bytes(checkpoint, party, federation, receiver)
    signature = bytes.fromhex(checkpoint.signature)
    return bool(signature) and any(signed_by(key, message, signature) for key in keys)


def signed_checkpoints(
    site: Site, store: Store, federation: str, run: str, keys: Collection[str],
    holders: Collection[str],
) -> Iterator[Evidence]:  # fmt: skip
    """Yield the checkpoints in a run's artifacts that a party has signed, also returned ones.

    Args:
        site: The party's site.
        store: The exchange.
        federation: Name of the federation.
        run: The run's ID.
        keys: All keys that have signed for the party.
        holders: All label holders that the party has agreed to.
    """
    listed = [place.split("/") for place in store.list(f"{federation}/{run}")]
    places = [parts for parts in listed if len(parts) == 4 and is_run_id(parts[1])]
    # For a party that has lost its agreements; anyone may have put a plan there.
    planned = [parts[3] for parts in places if parts[2] == "plan"]

    def receiver_of(checkpoint: Checkpoint, kind: Kind, about: str) -> str | None:
        for holder in dict.fromkeys((*holders, *planned)):
            towards = checkpoint_towards(kind, about, holder)
            if is_genuine(keys, site.party, federation, towards, checkpoint):
                return towards
        return None

    for parts in places:
        if parts[2] in _MANY:
            continue
        place = "/".join(parts)
        signed_manifest = manifest_at(store, place)
        if signed_manifest is None or signed_manifest[0].reference != place:
            continue
        manifest, raw, signature = signed_manifest
        if manifest.party != site.party:
            claim = manifest.seen.get(site.party)
            # Parties return what the label holder has received.
            if claim is not None and (holder := receiver_of(claim, "plan", "all")):
                yield Evidence(federation, holder, claim, f"{place} of {manifest.party}")
        elif manifest.head is not None and any(signed_by(key, raw, signature) for key in keys):
            towards = receiver_of(manifest.head, manifest.kind, manifest.about) or "unknown"
            where = f"{place} in the store, signed by {site.party}"
            yield Evidence(federation, towards, manifest.head, where, manifest)


def unknown_checkpoints(
    state: PartyState, site: Site, store: Store, federation: str, recent: int | None = None
) -> Iterator[Evidence]:
    """Yield the party's signed checkpoints in a federation that its database does not know.

    Args:
        state: The party's state.
        site: The party's site.
        store: The exchange.
        federation: Name of the federation.
        recent: Number of latest checkpoints whose artifacts are all checked, to detect a rollback
            to the middle of a run; None checks all.
    """
    checked: set[str] = set()
    keys, holders = signed_as(site, federation, site.party, None), label_holders(site, federation)
    if recent is not None:
        dated_runs = state.checkpoints.runs(federation)
        checked = (state.ledger.runs(federation, CHECKPOINTED_KINDS) | set(dated_runs)) - set(
            dated_runs[:recent]
        )
    for run in store.runs(federation):
        if run not in checked:
            signed = signed_checkpoints(site, store, federation, run, keys, holders)
            yield from _lost(state, federation, list(signed))
    # A restore keeps the last checkpoints of the state that it has moved aside.
    for name, receiver, checkpoint in state.checkpoints.returned(site.party):
        if name == federation and not state.checkpoints.knows(name, receiver, checkpoint):
            yield Evidence(federation, receiver, checkpoint, "the state before a restore")


def first_unknown(state: PartyState, site: Site, store: Store) -> Iterator[Evidence]:
    """Yield the first checkpoint of each federation that the party's database does not know.

    Args:
        state: The party's state.
        site: The party's site.
        store: The exchange.
    """
    for name in _federations(state, site):
        yield from islice(unknown_checkpoints(state, site, store, name, _RECENT), 1)


def _lost(
    state: PartyState, federation: str, signed_evidence: Sequence[Evidence]
) -> Iterator[Evidence]:
    """Yield the evidence of one run that the database does not know, with one query."""
    if not signed_evidence:
        return
    signed = [(item.receiver, item.checkpoint) for item in signed_evidence]
    unknown = state.checkpoints.unknown(federation, signed)
    # Later artifacts of a run repeat its first checkpoint, but have their own ledger entries.
    manifests = [item.manifest for item in signed_evidence if item.manifest is not None]
    entries = {each.digest for each in manifests if each.kind in CHECKPOINTED_KINDS}
    missing = entries - state.ledger.known(entries)
    for item in signed_evidence:
        place, manifest = (item.receiver, item.checkpoint), item.manifest
        if place in unknown or (
            manifest is not None
            and manifest.digest in missing
            and not state.checkpoints.covers(federation, item.receiver, item.checkpoint.number)
        ):
            yield item


def evidence(state: PartyState, site: Site) -> list[Evidence]:
    """Return all of a party's checkpoints in its store that its database does not know.

    Args:
        state: The party's state.
        site: The party's site.
    """
    store = open_store(site.store)
    names = _federations(state, site)
    return [item for name in names for item in unknown_checkpoints(state, site, store, name)]


def own_releases(state: PartyState, site: Site) -> Iterator[tuple[Manifest, str]]:
    """Yield the manifests in the store that a party has signed and that name releases.

    Each comes with the receiver of the releases.

    Args:
        state: The party's state.
        site: The party's site.
    """
    store = open_store(site.store)
    for federation in _federations(state, site):
        keys = signed_as(site, federation, site.party, None)
        holders = label_holders(site, federation)
        for run in store.runs(federation):
            for item in signed_checkpoints(site, store, federation, run, keys, holders):
                if item.manifest is not None and item.manifest.releases:
                    yield item.manifest, item.receiver


def rolled_back(
    state: PartyState, site: Site, store: Store, federation: str, claims: Mapping[str, Checkpoint],
    label_holder: str,
) -> list[str]:  # fmt: skip
    """Return why a party's state blocks a run, for its own people; empty if it does not.

    Args:
        state: The party's state.
        site: The party's site.
        store: The exchange.
        federation: Name of the run's federation.
        claims: The latest checkpoint of each party that the plan claims to have received.
        label_holder: The federation's label holder.
    """
    reasons: list[str] = []
    if claim := claims.get(site.party):
        keys = signed_as(site, federation, site.party, None)
        if not is_genuine(keys, site.party, federation, label_holder, claim):
            reasons.append(
                f"the plan claims checkpoint {claim.number} of {site.party}, which {site.party} "
                "has not signed"
            )
        elif not state.checkpoints.knows(federation, label_holder, claim):
            last = state.checkpoints.last_number(federation, label_holder)
            reasons.append(
                f"rolled back: {label_holder} has received checkpoint {claim.number} of "
                f"{site.party} in {federation}, and the database ends at {last}. {RECOVER}"
            )
    for item in first_unknown(state, site, store):
        reasons.append(f"rolled back: the database does not know {item.where}. {RECOVER}")
    try:
        state.audit.verify()
    except ArtifactError as error:
        reasons.append(f"{error.problem} {error.remedy}")
    return reasons


def check(site: Site) -> list[Gap]:
    """Find what a party's state has lost, and reserved charges without a known publication.

    Args:
        site: The party's site.

    Raises:
        ConfigError: The database or the store cannot be opened.
        ConnectionError: The store cannot be reached.
    """
    try:
        with open_state(site) as state:
            gaps = [
                *_store_gaps(state, site),
                *_ledger_gaps(state, site),
                *_pin_gaps(state),
                *_open_gaps(state),
            ]
            state.stores.note_check(len(gaps))
            return gaps
    except LostDatabase as error:
        what = error.problem
    return [Gap("ledger", "all of it: the database is gone, or empty", what, RECOVER)]


def _store_gaps(state: PartyState, site: Site) -> Iterator[Gap]:
    for federation in sorted(site.tables):
        fault = store_fault(state, open_store(site.store), site.party, federation)
        if fault is not None:
            what = f"the store that {site.party} has pinned for {federation}"
            yield Gap("store", what, fault.problem, fault.remedy, federation)


def _ledger_gaps(state: PartyState, site: Site) -> Iterator[Gap]:
    try:
        state.audit.verify()
    except ArtifactError as error:
        yield Gap("audit", "a whole chain", error.problem, "Restore the newest backup.")
    try:
        state.agreements.read()
    except ConfigError as error:
        yield Gap("agreement", "what was agreed", error.problem, error.remedy)
    else:
        for agreed in state.agreements.read().agreements:
            federation = federation_of(agreed.content)
            if federation is None or site.party not in federation.parties:
                continue
            for name in uncharged(state.releases, federation, site.party):
                missing = f"the draw of edges of {name}"
                yield Gap("ledger", missing, "what was agreed", RECOVER, agreed.federation)
    ids = {release.id for release in state.releases.all()}
    for manifest, _ in own_releases(state, site):
        for feature, name in manifest.releases.items():
            if name not in ids:
                ids.add(name)
                missing = f"the release {name} of {feature}"
                where = manifest.reference
                yield Gap(
                    "ledger", missing, where, RECOVER, manifest.federation, manifest.run, feature
                )
    for item in evidence(state, site):
        missing = (
            f"checkpoint {item.checkpoint.number} of {item.federation} towards {item.receiver}"
        )
        run = item.manifest.run if item.manifest is not None else ""
        yield Gap("ledger", missing, item.where, RECOVER, item.federation, run)


def _pin_gaps(state: PartyState) -> Iterator[Gap]:
    for lost in state.releases.lost():
        what = f"the pins of {lost.feature} towards {lost.receiver}"
        yield Gap("pins", what, "the ledger", RECOVER, lost.federation, feature=lost.feature)


def _open_gaps(state: PartyState) -> Iterator[Gap]:
    for line in state.ledger.uncommitted():
        yield Gap(
            "open",
            f"that {line.kind} of run {line.run} was published"
            f"{f', {line.feature}' if line.feature else ''}",
            "the ledger, where it is reserved",
            "Clear the run's failed task: it completes its own reservation at no further cost.",
            line.federation,
            line.run,
            line.feature or "",
        )


def _federations(state: PartyState, site: Site) -> list[str]:
    try:
        agreed = {agreement.federation for agreement in state.agreements.read().agreements}
    except ConfigError:
        agreed = set()
    return sorted(agreed | set(site.tables))


def manifest_at(store: Store, reference: str) -> tuple[Manifest, bytes, bytes] | None:
    """Read the manifest and signature of an artifact without its files.

    Args:
        store: The exchange.
        reference: Place of the artifact.

    Returns:
        The manifest, its bytes and its signature, not verified; None if missing or malformed.
    """
    try:
        heads = heads_alone(lambda admit: store.get(reference, admit)) or {}
        raw, signature = heads[MANIFEST], heads[SIGNATURE]
        return parse_manifest(raw, reference), raw, signature
    except (KeyError, Rejected):
        return None
