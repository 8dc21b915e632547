"""Publication of a party's artifacts: the ledger first, then the store."""

from collections.abc import Iterator, Mapping
from datetime import date
from typing import Any, NamedTuple

from opboost_ops.config.federation import Federation
from opboost_ops.config.site import Site
from opboost_ops.errors import ConfigError, ContractError
from opboost_ops.exchange.artifact import Draft
from opboost_ops.exchange.audit import Action
from opboost_ops.exchange.encryption import Envelope, all_keys
from opboost_ops.exchange.kinds import KINDS, disclosure
from opboost_ops.exchange.manifest import Kind, Manifest, checkpoint_towards, receiver_of
from opboost_ops.exchange.party_state import PartyState, open_state
from opboost_ops.exchange.signing import Signer
from opboost_ops.mechanisms import noise
from opboost_ops.pipeline.party.local_party import LocalParty, experiment_of
from opboost_ops.pipeline.party.rollback import CHECKPOINTED_KINDS, first_unknown
from opboost_ops.pipeline.party.trust import store_fault
from opboost_ops.pipeline.stage import Home
from opboost_ops.privacy.ledger.checkpoints import Standing, signed_bytes
from opboost_ops.privacy.ledger.entries import Ledger, LedgerEntry

#: File in a run's home with the signing key in use, if several are valid.
_SIGNED_BY = "signed_by"


class Published(NamedTuple):
    """An artifact that a party has published.

    Attributes:
        digest: Its name.
        size: Bytes of its files according to its manifest; 0 if a retry found it in the store.
    """

    digest: str
    size: int


def publish(
    party: LocalParty,
    federation: Federation,
    run: str,
    signer: Signer,
    drafts: tuple[Draft, ...],
) -> list[Published]:
    """Sign drafts, reserve them in the ledger, put them into the store, and commit them.

    Args:
        party: The party that publishes.
        federation: The plan's federation.
        run: The run's ID.
        signer: The party's signing key.
        drafts: Artifacts to publish.

    Returns:
        The published artifacts, in order.

    Raises:
        ContractError: Responses belong to no open release of the run, or the home has no space for
            the parts; nothing was published.
        ArtifactError: The run has already published something else at one of their places, or the
            store has no space for them.
        ConfigError: The store is not the one that the party has pinned; nothing was published.
    """
    if not drafts:
        return []
    experiment = experiment_of(party)
    sealed: list[tuple[Draft, Manifest, Mapping[str, bytes], str]] = []
    reserved: list[LedgerEntry] = []
    with open_state(party.site) as state:
        for draft in drafts:
            addressed = receiver_of(draft.kind, draft.about, federation.label_holder)
            # The plan is addressed to all parties, and unencrypted: it declares the keys.
            key = federation.parties[addressed].encryption_key if addressed else None
            receiver = addressed or draft.about
            envelope = Envelope(party.site.read_secret(), key) if key else None
            stands = standing(state, party, federation, run, draft.kind, draft.about, signer)
            manifest, files = draft.seal(
                signer, federation.name, run, party.name, experiment, envelope, stands
            )
            shared: dict[str, Any] = {
                "federation": federation.name,
                "run": run,
                "party": party.name,
                "receiver": receiver,
                "kind": draft.kind,
                "artifact": manifest.digest,
                "rows": draft.rows,
                "experiment": experiment,
            }
            reserved += _entries(party, federation, draft, shared)
            sealed.append((draft, manifest, files, receiver))
        # Reserve, publish, commit: after a crash in between the ledger may have an entry for an
        # artifact that was not released, never the reverse, and the retry completes its own
        # reservation. Releases were charged before, when they opened.
        if fault := store_fault(state, party.store, party.name, federation.name):
            raise fault
        _require_released(state, federation.name, run, party.name, reserved)
        with state.transaction():
            _require_one_table(state.ledger, party.name, reserved)
            if reserved:
                state.ledger.reserve(reserved)
        published: list[Published] = []
        for draft, manifest, files, receiver in sealed:
            new = party.store.put_once(manifest.reference, files)
            size = sum(file.size for file in manifest.files.values()) if new else 0
            published.append(Published(manifest.digest, size))
            if not state.ledger.committed(manifest.digest):
                action: Action = "answered" if draft.kind == "split_values" else "sent"
                detail = f"{draft.rows} splits" if action == "answered" else ""
                with state.transaction():
                    state.audit.add(action, manifest.reference, receiver, manifest.digest, detail)
                    for name in (manifest.digest, *draft.disclosures):
                        state.ledger.commit(name)
    return published


def standing(
    state: PartyState,
    party: LocalParty,
    federation: Federation,
    run: str,
    kind: Kind,
    about: str,
    signer: Signer,
) -> Standing:
    """Return the signed checkpoint of a party's state in a run, for the receiver of an artifact.

    Args:
        state: The party's state.
        party: The party that publishes.
        federation: The plan's federation.
        run: The run's ID.
        kind: Kind of the artifact.
        about: The party that the artifact is about.
        signer: The party's signing key.

    Raises:
        ContractError: The database does not know a checkpoint that the party has signed.
    """
    name, holder = federation.name, federation.label_holder
    receiver = checkpoint_towards(kind, about, holder)
    sends_rows = KINDS[kind].columns == "released"
    if sends_rows or state.checkpoints.of_run(name, receiver, run) is None:
        _require_not_rolled_back(state, party)
    others = {receiver} if receiver != party.name else set(federation.parties) - {receiver}
    received = state.checkpoints.received(name, holder)
    latest = {other: received[other] for other in sorted(others & received.keys())}
    key = noise.checkpoint_key(party.site.read_secret(), name, receiver)
    signed = state.checkpoints.take(key, name, receiver, run, CHECKPOINTED_KINDS, latest)
    message = signed_bytes(signed.head, party.name, name, receiver)
    head = signed.head.model_copy(update={"signature": signer.sign(message).hex()})
    return signed.model_copy(update={"head": head})


def _require_not_rolled_back(state: PartyState, party: LocalParty) -> None:
    """Require that the state is still the newest, before a run's first artifact and its rows."""
    for item in first_unknown(state, party.site, party.store):
        raise ContractError(
            f"The state of {party.name} was rolled back: its database does not know {item.where}.",
            "`opboost ledger check SITE` says what is missing.",
        )


def _require_one_table(ledger: Ledger, party: str, lines: list[LedgerEntry]) -> None:
    """Require that a run publishes a single table of shares, whatever happens to its exponents.

    Exponents are random, not derived from the table. From two tables of one run, anyone with points
    of the month could see who is in both.
    """
    for line in lines:
        if line.kind == "shares" and any(
            earlier.kind == "shares"
            and earlier.receiver == line.receiver
            and earlier.artifact != line.artifact
            for _, earlier in ledger.of_run(line.federation, line.run)
        ):
            raise ContractError(
                f"{party} has laid out another table in this run.",
                "Trigger a new run.",
            )


def _require_released(
    state: PartyState, federation: str, run: str, party: str, entries: list[LedgerEntry]
) -> None:
    """Require that responses belong to the run's own releases, which are open and charged."""
    recorded = state.releases.of_run(federation, run) or {}
    open_ones = {release.id for release in recorded.values() if not release.ended}
    for entry in entries:
        if entry.account == "local_dp" and entry.release not in open_ones:
            raise ContractError(
                f"The release of {entry.feature} that this run of {party} recorded has ended, or "
                "was never charged.",
                "Trigger a new run.",
            )


def _entries(
    party: LocalParty, federation: Federation, draft: Draft, shared: dict[str, Any]
) -> Iterator[LedgerEntry]:
    """Yield an artifact's ledger entries: one per feature, or one for its disclosure."""
    identity = federation.id.column
    for charge, curve in draft.losses.items():
        feature = charge.partition("=")[0]
        yield LedgerEntry(
            **shared,
            feature=charge,
            column=party.policy.raw_column(feature, identity).strip(),
            account="local_dp",
            release=draft.releases[feature],
            loss=curve,
        )
    for name, (feature, words) in draft.disclosures.items():
        of = {**shared, "artifact": name, "feature": feature, "discloses": words}
        yield LedgerEntry(**of, account="exact")
    if not draft.losses:
        words = draft.discloses or disclosure(draft.kind, federation)
        yield LedgerEntry(**shared, account="exact", discloses=words)


def signer_of(site: Site, federation: Federation, party: str, day: date, home: Home) -> Signer:
    """Return the party's signing key for a run: its newest one that is valid.

    Args:
        site: The party's site.
        federation: The plan's federation.
        party: Name of the party.
        day: Date for which the validity of keys is judged.
        home: Its folder for the run, which records the key, so that a retry uses the same.

    Raises:
        ConfigError: The federation file names none of its keys as valid.
    """
    good = federation.parties[party].signing(day)
    if home.has(_SIGNED_BY) and (noted := home.json(_SIGNED_BY)) in good:
        good = (noted,)
    spec, late = federation.parties[party], ""
    for signer in all_keys(site.signing_key, Signer.from_file):
        if signer.public in good:
            if len(good) > 1:
                home.write_json(_SIGNED_BY, signer.public)
            return signer
        if signer.public in spec.all_signing_keys:
            late = late or spec.fault_on(signer.public, day)
    if late:
        raise ConfigError(
            f"The signing key of {party} {late}; nothing was signed.",
            "Make another one with `opboost keys renew SITE signing`, and let all parties agree.",
        )
    raise ConfigError(
        f"The signing key of {party}'s site is not the one in the federation file.",
        "Put its public key there, or the right key file into its site.yaml.",
    )
