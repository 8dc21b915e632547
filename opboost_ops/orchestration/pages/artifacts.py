"""A run's artifacts in the store that a party may read, each verified."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import get_args

from opboost_ops.config.federation import Federation
from opboost_ops.config.loading import parse_federation
from opboost_ops.config.policy import Policy
from opboost_ops.config.site import Site
from opboost_ops.errors import ConfigError
from opboost_ops.exchange import contents
from opboost_ops.exchange.audit import Entry
from opboost_ops.exchange.contents import opened
from opboost_ops.exchange.manifest import Kind, Manifest, receiver_of, reference, sender_of
from opboost_ops.exchange.rejection import Rejected
from opboost_ops.exchange.store.store import Store, open_store
from opboost_ops.learning.registry.card_words import alignment_words
from opboost_ops.pipeline.party.trust import signed_as
from opboost_ops.reports.display.blocks import (
    Block,
    Cell,
    Figure,
    Figures,
    Pager,
    Row,
    Table,
    moment,
    size,
)
from opboost_ops.reports.display.charts import (
    TOO_MANY_PARTIES,
    Message,
    colour_of,
    sequence_diagram,
)
from opboost_ops.reports.ledger_tables import kind_words

#: Kinds in the order of the protocol.
_ORDER: Mapping[str, int] = {kind: at for at, kind in enumerate(get_args(Kind))}


@dataclass(frozen=True)
class InspectedArtifact:
    """An artifact in the store, and the result of its verification.

    Attributes:
        kind: Kind of its place.
        about: Party of its place.
        sender: The only party that may publish it.
        receiver: The party it is addressed to; None for all.
        size: Size of all its files in the store, in bytes.
        manifest: Its manifest, if readable.
        rejected: Why verification failed; None if it succeeded.
        gone: True if it is no longer in the store.
        declared: The federation that a valid plan declares.
    """

    kind: str
    about: str
    sender: str
    receiver: str | None
    size: int = 0
    manifest: Manifest | None = None
    rejected: Rejected | None = None
    gone: bool = False
    declared: Federation | None = None


def inspect_run(
    store: Store, site: Site, policy: Policy, federation: str, run: str
) -> list[InspectedArtifact]:
    """Return a run's artifacts that a party sent, or that are addressed to it or to all.

    Artifacts between other parties are excluded, although the store contains them.

    Args:
        store: The exchange.
        site: The party's site.
        policy: The party's policy, which pins the label holder's key.
        federation: Name of the federation.
        run: Id of the run.
    """
    party = site.party
    places = [place.split("/")[2:] for place in store.list(f"{federation}/{run}")]
    pairs = [(p[0], p[1]) for p in places if len(p) == 2 and p[0] in get_args(Kind)]
    holders = [about for kind, about in pairs if kind == "plan"]
    if not holders:
        return []
    trusted = (party, *policy.receivers)
    holder = next((name for name in holders if name in trusted), holders[0])
    receiver = policy.receivers.get(holder)
    pinned = signed_as(site, federation, holder, receiver.signing_key if receiver else None)

    def plan_keys(_: Manifest, what: str) -> Sequence[str]:
        if not pinned:
            raise Rejected("unknown_party", f"{what}: the policy pins no key of {holder}.")
        return pinned

    plan_place = reference(federation, run, "plan", holder)
    plan_files = store.get(plan_place) or {}
    plan = _inspected(
        InspectedArtifact("plan", holder, holder, None), plan_files, plan_place, plan_keys
    )
    declared = plan.declared

    def declared_keys(manifest: Manifest, what: str) -> Sequence[str]:
        if declared is None:
            raise Rejected("out_of_order", f"{what}: the run's plan is not what it must be.")
        return contents.declared_keys(declared, manifest, what)

    inspected = [plan]
    for kind, about in pairs:
        sender = sender_of(kind, about, holder)
        addressed = receiver_of(kind, about, holder)
        if kind == "plan" or party not in (sender, addressed):
            continue
        what = reference(federation, run, kind, about)
        files = store.get(what)
        if files is not None:
            place = InspectedArtifact(kind, about, sender, addressed)
            inspected.append(_inspected(place, files, what, declared_keys))
    return inspected


def _inspected(
    place: InspectedArtifact,
    files: Mapping[str, bytes],
    what: str,
    keys_of: Callable[[Manifest, str], Sequence[str]],
) -> InspectedArtifact:
    """Verify an artifact against its place and the sender's keys."""
    place = replace(place, size=sum(map(len, files.values())))
    try:
        manifest = contents.read_manifest(files, what)
        place = replace(place, manifest=manifest)
        key = contents.verify(manifest, files, keys_of(manifest, what), what)
        if manifest.reference != what:
            raise Rejected("wrong_run", f"{what}: it is of another run or place.")
        if place.kind == "plan":
            return replace(place, declared=_declared_federation(place, manifest, files, key))
    except Rejected as error:
        return replace(place, rejected=error)
    except ConfigError as error:
        return replace(place, rejected=Rejected("malformed", error.problem))
    return place


def _declared_federation(
    place: InspectedArtifact, manifest: Manifest, files: Mapping[str, bytes], key: str
) -> Federation:
    """Return the federation that a plan declares; its signer must be the label holder."""
    what = manifest.reference
    document = opened(manifest, files, None, what).document
    declared = parse_federation(document.get("federation"), what)
    spec = declared.parties.get(place.about)
    if spec is None or key not in spec.all_signing_keys or declared.label_holder != place.about:
        raise Rejected("malformed", f"{what}: it plans another party's run.")
    return declared


@dataclass(frozen=True)
class LoggedRun:
    """A run in the audit log.

    Attributes:
        federation: Name of the federation.
        run: Id of the run.
        noted: The last log entry about each artifact, by ``<kind>/<party>``.
    """

    federation: str
    run: str
    noted: Mapping[str, Entry]


def artifacts(
    site: Site,
    policy: Policy,
    runs: Sequence[LoggedRun],
    pager: Pager | None,
    once: tuple[str, ...] = (),
) -> list[Block]:
    """Return blocks with some runs' artifacts that a party sent or may read, verified now.

    Args:
        site: The party's site.
        policy: The party's policy, which pins the label holder's key.
        runs: The runs.
        pager: Position in the list of runs.
        once: Columns that are shown once if all rows have the same value.
    """
    store = open_store(site.store)
    rows: list[Row] = []
    figures: list[Figure] = []
    alignments: dict[str, None] = {}
    for run in runs:
        artifacts_of_run = _inspect_with_gone(store, site, policy, run)
        rows += [
            _artifact_row(run, artifact, run.noted.get(f"{artifact.kind}/{artifact.about}"))
            for artifact in artifacts_of_run
        ]
        plans = [
            artifact.declared for artifact in artifacts_of_run if artifact.declared is not None
        ]
        # A feature holder's page must not show what the label holder asked other parties.
        alignments |= {
            alignment_words(plan, "each feature holder"): None
            for plan in plans
            if plan.learning == "vertical"
        }
        if artifacts_of_run and (picture := _exchange_figure(run, artifacts_of_run)):
            figures.append(picture)
    columns = (
        "run",
        "noted (UTC)",
        "what",
        "from",
        "to",
        "rows",
        "size",
        "encrypted",
        "verified now",
        "in the log",
        "artifact",
    )
    table = Table(
        "artifacts",
        "Artifacts",
        columns,
        rows,
        "Verified now: the signature is by the pinned or declared key, and the files have the "
        "digests of the manifest; of encrypted files only their receiver can check more than "
        "names and sizes. In the log: the digest is the one that this party noted when it was "
        "sent or "
        f"received.{''.join(f' To find common people: {words}' for words in alignments)}",
        pager=pager,
        once=once,
    )
    blocks: list[Block] = []
    if figures:
        # Side by side, the figures would be cut off after the second party.
        blocks.append(Figures("Who sent what to whom", figures, wide=True))
    return [*blocks, table]


def _inspect_with_gone(
    store: Store, site: Site, policy: Policy, run: LoggedRun
) -> list[InspectedArtifact]:
    party = site.party
    inspected = inspect_run(store, site, policy, run.federation, run.run)
    existing = {f"{artifact.kind}/{artifact.about}" for artifact in inspected}
    gone = []
    for place, entry in run.noted.items():
        if place not in existing:
            kind, about = place.split("/")
            ends = (entry.party, party) if entry.action == "received" else (party, entry.party)
            gone.append(InspectedArtifact(kind, about, *ends, gone=True))
    return sorted(
        [*inspected, *gone], key=lambda artifact: (_ORDER.get(artifact.kind, 99), artifact.about)
    )


def _artifact_row(run: LoggedRun, artifact: InspectedArtifact, noted: Entry | None) -> Row:
    manifest = artifact.manifest
    if artifact.gone:
        verdict = Cell("no longer in the store", state="muted")
    elif artifact.rejected is not None:
        text = f"{artifact.rejected.problem} {artifact.rejected.remedy}"
        verdict = Cell(artifact.rejected.reason.replace("_", " "), text, "bad", title=text)
    else:
        sealed = manifest is not None and manifest.encrypted_to is not None
        verdict = Cell("signature, sizes" if sealed else "signature, digests", state="good")
    digest = manifest.digest if manifest else ""
    if noted is None:
        logged = Cell("for all" if artifact.receiver is None else "not noted", state="muted")
    elif not digest:
        logged = Cell("noted", state="muted")
    else:
        same = noted.artifact == digest
        logged = Cell("same digest" if same else "another digest", state="good" if same else "bad")
    return (
        Cell(run.run, href=f"run?id={run.run}"),
        moment(noted.at) if noted else None,
        kind_words(artifact.kind),
        artifact.sender,
        artifact.receiver or "all",
        manifest.rows if manifest else None,
        size(artifact.size) if artifact.size else None,
        Cell("" if manifest is None else "yes" if manifest.encrypted_to else "no"),
        verdict,
        logged,
        Cell(digest[:12], digest, title=digest),
    )


def _exchange_figure(run: LoggedRun, inspected: Sequence[InspectedArtifact]) -> Figure | None:
    names = sorted({n for artifact in inspected for n in (artifact.sender, artifact.receiver) if n})
    if len(names) >= TOO_MANY_PARTIES:
        return None
    holder = next((artifact.sender for artifact in inspected if artifact.kind == "plan"), None)
    plan = next(
        (artifact.declared for artifact in inspected if artifact.declared is not None), None
    )
    parties = plan.parties if plan is not None else names.copy()
    if holder in names:
        # In the middle, because all artifacts come from it or go to it.
        names.remove(holder)
        names.insert(len(names) // 2, holder)
    messages = [
        Message(
            artifact.sender,
            artifact.receiver,
            kind_words(artifact.kind),
            artifact.rejected is None,
            size(artifact.size).text if artifact.size else "",
            colour_of(artifact.sender, parties),
        )
        for artifact in inspected
    ]
    title = f"Who sent what to whom in run {run.run}"
    caption = f"Run {run.run} of {run.federation}"
    return Figure(sequence_diagram(names, messages, title=title), caption)
