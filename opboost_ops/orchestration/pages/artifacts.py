"""The artifacts of a run in the store, as far as a party may read them, each verified."""

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
from opboost_ops.reports.display.charts import MANY, Message, colour_of, exchanged
from opboost_ops.reports.ledger_tables import kind_words

#: Kinds in the order of the protocol.
_ORDER: Mapping[str, int] = {kind: at for at, kind in enumerate(get_args(Kind))}


@dataclass(frozen=True)
class Inspected:
    """An artifact that was looked at.

    Attributes:
        kind: The kind of its place.
        about: The party of its place.
        sender: Who alone may have published it.
        receiver: Whom it is for; None for all.
        size: Bytes of all its files as they lie in the store.
        manifest: What it says of itself, if that can be read.
        rejected: Why it is not what it must be; None if it is.
        gone: It is no longer in the store.
        declared: The federation of a plan that is what it must be.
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
) -> list[Inspected]:
    """Everything in a run that a party sent, that is for it, or that is for all.

    What others say to each other is left out, although it lies in the same store.

    Args:
        store: The exchange.
        site: Whose view.
        policy: Its policy, which pins the label holder's key.
        federation: The run's federation.
        run: Its id.
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
    plan = _inspected(Inspected("plan", holder, holder, None), plan_files, plan_place, plan_keys)
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
            place = Inspected(kind, about, sender, addressed)
            inspected.append(_inspected(place, files, what, declared_keys))
    return inspected


def _inspected(
    place: Inspected,
    files: Mapping[str, bytes],
    what: str,
    keys_of: Callable[[Manifest, str], Sequence[str]],
) -> Inspected:
    """A place as its manifest describes it, and why it is not what it must be."""
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
    place: Inspected, manifest: Manifest, files: Mapping[str, bytes], key: str
) -> Federation:
    """The federation that a plan declares, of which its signer is the label holder."""
    what = manifest.reference
    document = opened(manifest, files, None, what).document
    declared = parse_federation(document.get("federation"), what)
    spec = declared.parties.get(place.about)
    if spec is None or key not in spec.signed_ever or declared.label_holder != place.about:
        raise Rejected("malformed", f"{what}: it plans another party's run.")
    return declared


@dataclass(frozen=True)
class Place:
    """A run that the audit log knows, and what it says of its artifacts.

    Attributes:
        federation: The run's federation.
        run: Its id.
        noted: The last entry at each place, by ``<kind>/<party>``.
    """

    federation: str
    run: str
    noted: Mapping[str, Entry]


def artifacts(
    site: Site,
    policy: Policy,
    runs: Sequence[Place],
    pager: Pager | None,
    once: tuple[str, ...] = (),
) -> list[Block]:
    """The artifacts of some runs that a party sent or may read, each verified now.

    Args:
        site: Whose view.
        policy: Its policy, which pins the label holder's key.
        runs: The runs.
        pager: Where in the list of runs this is.
        once: Columns that are said once where all artifacts say the same.
    """
    store = open_store(site.store)
    rows: list[Row] = []
    figures: list[Figure] = []
    learnt: dict[str, None] = {}
    for run in runs:
        artifacts_of_run = _inspect_with_gone(store, site, policy, run)
        rows += [
            _artifact_row(run, artifact, run.noted.get(f"{artifact.kind}/{artifact.about}"))
            for artifact in artifacts_of_run
        ]
        plans = [
            artifact.declared for artifact in artifacts_of_run if artifact.declared is not None
        ]
        # Whom else the label holder asked is nothing of a feature holder's page.
        learnt |= {
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
        f"received.{''.join(f' To find common people: {words}' for words in learnt)}",
        pager=pager,
        once=once,
    )
    blocks: list[Block] = []
    if figures:
        # Side by side they would hide the third party behind an edge.
        blocks.append(Figures("Who sent what to whom", figures, wide=True))
    return [*blocks, table]


def _inspect_with_gone(store: Store, site: Site, policy: Policy, run: Place) -> list[Inspected]:
    party = site.party
    inspected = inspect_run(store, site, policy, run.federation, run.run)
    there = {f"{artifact.kind}/{artifact.about}" for artifact in inspected}
    gone = []
    for place, entry in run.noted.items():
        if place not in there:
            kind, about = place.split("/")
            ends = (entry.party, party) if entry.action == "received" else (party, entry.party)
            gone.append(Inspected(kind, about, *ends, gone=True))
    return sorted(
        [*inspected, *gone], key=lambda artifact: (_ORDER.get(artifact.kind, 99), artifact.about)
    )


def _artifact_row(run: Place, artifact: Inspected, noted: Entry | None) -> Row:
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


def _exchange_figure(run: Place, inspected: Sequence[Inspected]) -> Figure | None:
    names = sorted({n for artifact in inspected for n in (artifact.sender, artifact.receiver) if n})
    if len(names) >= MANY:
        return None
    holder = next((artifact.sender for artifact in inspected if artifact.kind == "plan"), None)
    plan = next(
        (artifact.declared for artifact in inspected if artifact.declared is not None), None
    )
    parties = plan.parties if plan is not None else names.copy()
    if holder in names:
        # In the middle, because everything comes from it or goes to it.
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
    return Figure(exchanged(names, messages, title=title), caption)
