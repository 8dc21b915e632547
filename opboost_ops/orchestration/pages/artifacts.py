"""The artifacts of runs, as a table and as a picture; each is verified while they are made."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import get_args

from opboost_ops.config.policy import Policy
from opboost_ops.config.site import Site
from opboost_ops.exchange.audit import Entry
from opboost_ops.exchange.manifest import Kind
from opboost_ops.exchange.store.store import Store, open_store
from opboost_ops.learning.registry.card_words import alignment_words
from opboost_ops.orchestration.pages.inspection import Inspected, inspect_run
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
from opboost_ops.reports.display.charts import colour_of
from opboost_ops.reports.display.sequence import MANY, Message, exchanged
from opboost_ops.reports.ledger_tables import kind_words

#: Kinds in the order of the protocol.
_ORDER: Mapping[str, int] = {kind: at for at, kind in enumerate(get_args(Kind))}


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
        artifacts_of_run = _inspect(store, site, policy, run)
        rows += [
            _row(run, artifact, run.noted.get(f"{artifact.kind}/{artifact.about}"))
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
        if artifacts_of_run and (picture := _picture(run, artifacts_of_run)):
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


def _inspect(store: Store, site: Site, policy: Policy, run: Place) -> list[Inspected]:
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


def _row(run: Place, artifact: Inspected, noted: Entry | None) -> Row:
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


def _picture(run: Place, inspected: Sequence[Inspected]) -> Figure | None:
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
