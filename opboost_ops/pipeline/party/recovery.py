"""`opboost ledger recover` and `renew`: end releases, and charge those that the ledger has lost.

A rolled-back state does not know what was sent since its backup. The party's own signed manifests
name releases; those missing from the ledger are charged. If manifests may be missing as well, one
release per declaration, receiver and year is charged in addition. All open releases end; the list
of forgotten people stays.
"""

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import date
from typing import Any
from uuid import uuid4

from opboost_ops.config.agreement import federation_of, fields
from opboost_ops.config.documents import read_json
from opboost_ops.config.federation import Federation
from opboost_ops.config.policy import Policy
from opboost_ops.config.site import Site
from opboost_ops.errors import ConfigError, OpBoostError
from opboost_ops.exchange.artifact import DOCUMENT
from opboost_ops.exchange.manifest import MANIFEST, SIGNATURE, Manifest, reference
from opboost_ops.exchange.party_state import PartyState, open_state
from opboost_ops.exchange.plan import parse_plan
from opboost_ops.exchange.sealed import month_keys
from opboost_ops.exchange.signing import signed_by
from opboost_ops.exchange.store.store import open_store
from opboost_ops.pipeline.party import clock
from opboost_ops.pipeline.party.rollback import Evidence, evidence, own_releases
from opboost_ops.pipeline.party.trust import accept_store, label_holders, signed_as
from opboost_ops.pipeline.runner.run_releases import model_cost
from opboost_ops.privacy.declarations import declarations
from opboost_ops.privacy.edge_charges import (
    content_of,
    declaration_of,
    edges_loss,
    edges_release,
    uncharged,
)
from opboost_ops.privacy.ledger.budgets import Budget
from opboost_ops.privacy.ledger.checkpoints import Standing
from opboost_ops.privacy.ledger.entries import LedgerEntry
from opboost_ops.privacy.ledger.query_counts import Query
from opboost_ops.privacy.release_records import Release


@dataclass(frozen=True)
class Recovered:
    """The outcome of a recovery.

    Attributes:
        releases: Number of missing releases that were charged.
        ended: Number of open releases that ended.
        stores: Federations that use another store from now on.
    """

    releases: int
    ended: int
    stores: tuple[str, ...] = ()


def recover(site: Site, policy: Policy) -> Recovered:
    """End all releases, charge what a party's state has lost, and accept the current store.

    Args:
        site: The party's site.
        policy: The party's policy.

    Raises:
        ConfigError: The party has no agreement, or no plan has the declarations.
    """
    with open_state(site, fresh=True) as state:
        store = open_store(site.store)
        stores = tuple(
            name for name in sorted(site.tables) if accept_store(state, store, site.party, name)
        )
        unknown = evidence(state, site)
        with state.transaction():
            releases = _charge_named(state, site, policy)
            for federation, receiver in sorted({(e.federation, e.receiver) for e in unknown}):
                of = [e for e in unknown if (e.federation, e.receiver) == (federation, receiver)]
                releases += _charge_unnamed(state, site, policy, of)
            _count_queries(state, unknown)
            for missing in missing_edges(state, policy):
                _open(state, site.party, missing)
                releases += 1
            ended = state.releases.end(release.id for release in state.releases.all())
            if releases or ended:
                detail = f"recovered: {releases} missing releases charged, {ended} releases ended"
                state.audit.add("noted", "ledger", site.party, detail=detail)
        state.releases.collect()
    return Recovered(releases, ended, stores)


def renew(site: Site, policy: Policy, column: str, *, confirmed: bool) -> list[str]:
    """End the open releases of a raw column, so that the next run opens and charges new ones.

    Args:
        site: The party's site.
        policy: The party's policy.
        column: Name of the raw column.
        confirmed: True to end them; otherwise only the cost is reported.

    Returns:
        Printable lines with the cost of each release.

    Raises:
        ConfigError: The column has no open release, or the cost is not confirmed.
        BudgetError: A new release would exceed the budget; nothing was ended.
    """
    with open_state(site) as state, state.transaction():
        there = [
            release
            for release in state.releases.all()
            if release.column == column and release.kind == "values" and not release.ended
        ]
        if not there:
            raise ConfigError(
                f"{site.party} has no open release of the raw column {column}.",
                "`opboost ledger show SITE` lists them.",
            )
        Budget(policy).releases(state.releases.spent(), there)
        lines = [
            f"{release.feature} to {release.receiver}: the release of {release.opened} ends, "
            f"and the next run is charged loss(R-L) {float(release.loss):.4g}."
            for release in there
        ]
        if not confirmed:
            raise ConfigError(
                " ".join(lines), "Everybody's value is drawn again. Add --yes. Nothing was changed."
            )
        state.releases.end(release.id for release in there)
        state.audit.add("noted", "ledger", site.party, detail=f"renewed: {' '.join(lines)}")
    with open_state(site) as state:
        state.releases.collect()
    return lines


def _charge_named(state: PartyState, site: Site, policy: Policy) -> int:
    """Charge releases that the party's own signed manifests name and the ledger lacks."""
    ids = {release.id for release in state.releases.all()}
    lost: dict[str, Release] = {}
    for manifest, receiver in own_releases(state, site):
        for feature, name in manifest.releases.items():
            if name not in ids:
                lost.setdefault(name, _named(state, policy, manifest, receiver, feature))
    for release in lost.values():
        _open(state, site.party, release)
    return len(lost)


def _named(
    state: PartyState, policy: Policy, manifest: Manifest, receiver: str, feature: str
) -> Release:
    name = manifest.releases[feature]
    losses = {c: curve for c, curve in manifest.losses.items() if c.partition("=")[0] == feature}
    newest = state.agreements.read().newest(manifest.federation)
    identity = newest.content["federation"]["id"]["column"] if newest else ""
    return Release(
        id=name,
        kind="values",
        feature=feature,
        column=policy.raw_column(feature, identity).strip(),
        receiver=receiver,
        federation=manifest.federation,
        declaration=hashlib.sha256(f"lost/{name}".encode()).hexdigest(),
        opened=clock.today(),
        run=manifest.run,
        losses=losses,
    )


def _charge_unnamed(state: PartyState, site: Site, policy: Policy, lost: Sequence[Evidence]) -> int:
    """Charge the runs of lost checkpoints of one federation and receiver without a manifest."""
    newest = max(lost, key=lambda evidence_of: evidence_of.checkpoint.number)
    name, receiver = newest.federation, newest.receiver
    last = state.checkpoints.last_number(name, receiver)
    # After a rollback, the database may have given the same numbers to other runs.
    oldest = min(evidence_of.checkpoint.number for evidence_of in lost)
    after = min(last, oldest - 1)
    missing = newest.checkpoint.number - after
    federation = _declared(state, site, policy, name)
    place = f"recovered/{name}/{receiver}/{after}/{newest.checkpoint.number}"
    for entry in _entries(site, federation, receiver, place, missing):
        state.ledger.reserve([entry])
        state.ledger.commit(entry.artifact)
    numbers = {
        evidence_of.checkpoint.number for evidence_of in lost if evidence_of.manifest is not None
    }
    count, holders = 0, label_holders(site, name)
    # Only a label holder sends to others than label holders; agreements may be lost as well.
    if len(numbers) < missing and (receiver in holders or site.party not in holders):
        for release in _possible(state, site, policy, federation, receiver):
            _open(state, site.party, release)
            count += 1
    state.checkpoints.enter(name, receiver, "", Standing(head=newest.checkpoint), after)
    return count


def _count_queries(state: PartyState, lost: Sequence[Evidence]) -> None:
    """Count the people of lost queries in this month, as the month that a plan names is a claim."""
    month = month_keys.epoch_at(month_keys.now())
    for item in lost:
        answer = item.manifest
        if answer is not None and answer.kind == "psi_answer":
            query = Query(item.federation, item.receiver, month, answer.answers or "", answer.run)
            state.query_counts.count_lost(query, answer.rows)


def _possible(
    state: PartyState, site: Site, policy: Policy, federation: Federation, receiver: str
) -> Iterator[Release]:
    """Yield one release per declaration and year since the ledger's last entry."""
    dated = state.ledger.dated()
    today = clock.today()
    first = int(dated[-1][0][:4]) if dated else today.year
    for declaration in declarations(federation, site.party, policy, site).values():
        years = range(first, today.year + 1) if declaration.refresh == "yearly" else [today.year]
        for year in years:
            yield Release(
                id=uuid4().hex,
                kind="values",
                feature=declaration.feature,
                column=declaration.column,
                receiver=receiver,
                federation=federation.name,
                declaration=declaration.digest,
                opened=date(year, 1, 1) if year < today.year else today,
                run="",
                losses=declaration.losses,
            )


def _open(state: PartyState, party: str, release: Release) -> None:
    with state.database.writing() as connection:
        ended = replace(release, ended="recovered" if release.kind == "values" else "")
        state.releases.open(connection, ended, party=party, recovered=True)


def _entries(
    site: Site, federation: Federation, receiver: str, place: str, missing: int
) -> Iterator[LedgerEntry]:
    facts: dict[str, Any] = {
        "federation": federation.name,
        "run": "",
        "party": site.party,
        "receiver": receiver,
        "rows": 0,
        "discloses": f"{missing} runs that the ledger had lost",
        "recovered": True,
    }
    yield LedgerEntry(**facts, kind="recovered", artifact=_name(place), account="exact")
    yield from _models(federation, site.party, place, missing, facts)


def _models(
    federation: Federation, party: str, place: str, missing: int, facts: dict[str, Any]
) -> Iterator[LedgerEntry]:
    private = federation.training.private
    horizontal = federation.learning == "horizontal"
    if private is None or (not horizontal and party != federation.label_holder):
        return
    metrics = private.metrics_epsilon
    costs = {"model": model_cost(federation), "metrics": {"epsilon": metrics} if metrics else None}
    for number in range(missing):
        for kind, cost in costs.items():
            if cost is not None:
                name = _name(f"{place}/{kind}/{number}")
                of = {**facts, **cost, "kind": kind, "artifact": name}
                yield LedgerEntry(**of, account="model")


def _declared(state: PartyState, site: Site, policy: Policy, name: str) -> Federation:
    """Return the federation of the newest plan in the store that the party agreed to."""
    newest = state.agreements.read().newest(name)
    store = open_store(site.store)
    for run in store.runs(name) if newest is not None else ():
        for place in store.list(f"{name}/{run}/plan"):
            holder = place.split("/")[3]
            receiver_rule = policy.receivers.get(holder)
            keys = signed_as(
                site, name, holder, receiver_rule.signing_key if receiver_rule else None
            )
            try:
                files = store.get(reference(name, run, "plan", holder))
                good = files and any(
                    signed_by(key, files[MANIFEST], files[SIGNATURE]) for key in keys
                )
                document = read_json(files[DOCUMENT]) if files and good else None
                # Also plans of older versions: their releases must be charged too.
                plan = parse_plan(document, place) if document else None
            except (OpBoostError, KeyError, ValueError):
                continue
            if newest and plan and not fields(newest.content, plan.federation):
                return plan.federation
    raise ConfigError(
        f"What {name} declares is not known: {site.party} has agreed to nothing in it, or no plan "
        "of what it has agreed to is in the store.",
        "Agree first (`opboost agree SITE FEDERATION`), then recover.",
    )


def _name(place: str) -> str:
    return hashlib.sha256(place.encode()).hexdigest()


def missing_edges(state: PartyState, policy: Policy) -> list[Release]:
    """Return the releases of edges that a rolled-back ledger lacks, at the agreed epsilon.

    Args:
        state: The party's state.
        policy: The party's policy.

    Raises:
        ConfigError: An agreement was changed by hand.
    """
    releases: dict[tuple[str, str], Release] = {}
    for agreed in state.agreements.read().agreements:
        federation = federation_of(agreed.content)
        if federation is None or policy.party not in federation.parties:
            continue
        domain = federation.domain.to_domain()
        for name, feature in uncharged(state.releases, federation, policy.party).items():
            edges = feature.private_edges
            assert edges is not None and edges.epsilon is not None
            column = policy.raw_column(name, federation.id.column).strip()
            content = content_of(edges.edges, edges.epsilon)
            releases[column, content] = edges_release(
                name,
                column,
                edges_loss(edges, feature.domain_in(domain)),
                declaration_of(column, feature, len(edges.edges) + 1, edges.epsilon, 1),
                clock.today(),
                agreed.federation,
                content,
            )
    return list(releases.values())
