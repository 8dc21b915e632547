"""`opboost ledger recover`: charge what a rolled-back state has lost, and go on.

Between the last checkpoint that the database knows and the newest one that the party has signed lie
so many releases. Each is charged at the worst that the federation declares, under noise keys of
their own; no entry changes and no charge becomes lower. Numbers that nobody signed are not counted.
"""

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from opboost_ops.config.agreement import fields
from opboost_ops.config.columns import columns_of
from opboost_ops.config.federation import Federation
from opboost_ops.config.policy import Policy
from opboost_ops.config.site import Site
from opboost_ops.domain import Domain
from opboost_ops.errors import ConfigError, OpBoostError
from opboost_ops.exchange.artifact import DOCUMENT
from opboost_ops.exchange.json_text import read_json
from opboost_ops.exchange.manifest import MANIFEST, SIGNATURE, reference
from opboost_ops.exchange.party_state import PartyState, open_state
from opboost_ops.exchange.plan import parse_plan
from opboost_ops.exchange.signing import signed_by
from opboost_ops.exchange.store import open_store
from opboost_ops.privacy.cells import empty_state
from opboost_ops.privacy.checkpoints import Standing
from opboost_ops.privacy.events import Draw, Release
from opboost_ops.privacy.loss import column_losses
from opboost_ops.run.edge_gaps import missing_entries
from opboost_ops.run.expected_cost import model_cost
from opboost_ops.run.known_keys import signed_as
from opboost_ops.run.known_store import accept_store
from opboost_ops.run.rollback import Evidence, evidence
from opboost_ops.stages.seal import disclosed_edges


@dataclass(frozen=True)
class Recovered:
    """What was done.

    Attributes:
        releases: How many missing releases were charged.
        states: How many cell states start over.
        stores: Of which federations another store is used from now on.
    """

    releases: int
    states: int
    stores: tuple[str, ...] = ()


def recover(site: Site, policy: Policy) -> Recovered:
    """Charge what a party's state has lost, and use the store that is there now.

    Doing it again changes nothing.

    Args:
        site: The party's.
        policy: Its policy: caps in force, and whom it believes.

    Raises:
        ConfigError: The party has agreed to nothing yet, or no plan says what was declared.
    """
    with open_state(site, fresh=True) as state:
        store = open_store(site.store)
        stores = tuple(
            name for name in sorted(site.tables) if accept_store(state, store, site.party, name)
        )
        found = evidence(state, site)
        with state.together():
            releases = 0
            for federation, receiver in sorted({(e.federation, e.receiver) for e in found}):
                of = [e for e in found if (e.federation, e.receiver) == (federation, receiver)]
                releases += _charge(state, site, policy, of)
            states = _begin_anew(state, policy) + _begin_routes_anew(state)
            edges = missing_entries(state, site.party)
            releases += state.ledger.reserve(edges)
            if releases or states:
                detail = f"recovered: {releases} missing releases, {states} lost cell states"
                state.audit.add("noted", "ledger", site.party, detail=detail)
        state.cells.collect()
    return Recovered(releases, states, stores)


def _charge(state: PartyState, site: Site, policy: Policy, found: Sequence[Evidence]) -> int:
    """Charge the releases up to the newest checkpoint of one federation and receiver; how many."""
    newest = max(found, key=lambda one: one.checkpoint.number)
    name, receiver = newest.federation, newest.receiver
    last = state.checkpoints.last_number(name, receiver)
    # Of another past, the numbers of which the database has given to other runs.
    oldest = min(one.checkpoint.number for one in found)
    after = min(last, oldest - 1)
    missing = newest.checkpoint.number - after
    federation = _declared(state, site, policy, name)
    for line in _lines(site, federation, receiver, newest, after, missing):
        if line.draw is not None and line.column is not None:
            known = state.ledger.worst(line.column, line.cells or "")
            draw = line.draw.model_copy(
                update={"number": known.number + 1, "worst": known.values + missing}
            )
            line = line.model_copy(update={"draw": draw})
        state.ledger.reserve([line])
        state.ledger.commit(line.artifact)
    state.checkpoints.enter(name, receiver, "", Standing(head=newest.checkpoint), after)
    return missing


def _lines(
    site: Site,
    federation: Federation,
    receiver: str,
    newest: Evidence,
    after: int,
    missing: int,
) -> Iterator[Release]:
    place = f"recovered/{federation.name}/{receiver}/{after}/{newest.checkpoint.number}"
    why = f"{missing} releases that the ledger had lost, charged at the declared worst case"
    facts: dict[str, Any] = {
        "federation": federation.name,
        "run": "",
        "party": site.party,
        "receiver": receiver,
        "rows": 0,
        "discloses": why,
        "recovered": True,
    }
    yield Release(**facts, kind="recovered", artifact=_name(place), account="exact")
    if site.party in federation.feature_holders and receiver == federation.label_holder:
        yield from _draws(federation, site.party, place, missing, facts)
    yield from _models(federation, site.party, place, missing, facts)


def _draws(
    federation: Federation, party: str, place: str, missing: int, facts: dict[str, Any]
) -> Iterator[Release]:
    columns = {c.charge: c for c in columns_of(federation, party)}
    routed = "routed" in federation.scoring.modes
    for charge, curve in column_losses(tuple(columns.values())).items():
        column = columns[charge]
        spec = federation.parties[party].features[column.feature]
        name = _name(f"{place}/{charge}")
        inputs = column.source_domain.size
        draw = Draw(number=1, added=missing, worst=missing, inputs=inputs, stands_for=missing)
        edges = disclosed_edges(federation, party, column)
        of = {**facts, "feature": charge, "column": column.uuid}
        # Of its loss, too: under another declaration it is another key, and both are charged.
        key = _name(f"{federation.name}/{facts['receiver']}/{charge}/{curve.model_dump_json()}")
        yield Release(
            **of,
            kind="draw",
            artifact=name,
            account="local_dp",
            cells=f"lost{key[:12]}",
            draws=name,
            draw=draw,
            edges=edges,
            span=spec.span if edges else None,
            loss=curve,
        )
        if routed and column.charge == column.feature and column.bit is None:
            # Every boundary of the domain: which thresholds were asked for is not known.
            mapping, domain = spec.domain_map(column.domain), column.domain
            every = tuple(mapping.boundary(v) for v in range(domain.lower + 1, domain.upper + 1))
            of |= {"artifact": _name(f"{place}/{charge}/routes"), "kind": "routes"}
            yield Release(**of, account="structural", edges=every, span=spec.span)


def _models(
    federation: Federation, party: str, place: str, missing: int, facts: dict[str, Any]
) -> Iterator[Release]:
    private = federation.training.private
    horizontal = federation.learning == "horizontal"
    if private is None or (not horizontal and party != federation.label_holder):
        return
    epsilon, curve = model_cost(federation) or (0.0, None)
    costs = {"model": epsilon, "metrics": private.metrics_epsilon or 0.0}
    for number in range(missing):
        for kind, epsilon in costs.items():
            if epsilon:
                name = _name(f"{place}/{kind}/{number}")
                of = {**facts, "kind": kind, "artifact": name, "epsilon": epsilon}
                yield Release(**of, account="model", curve=curve if kind == "model" else None)


def _declared(state: PartyState, site: Site, policy: Policy, name: str) -> Federation:
    """By the newest plan in the store that the party agreed to."""
    newest = state.agreements.read().newest(name)
    store = open_store(site.store)
    for run in store.runs(name) if newest is not None else ():
        for place in store.list(f"{name}/{run}/plan"):
            holder = place.split("/")[3]
            known = policy.receivers.get(holder)
            keys = signed_as(site, name, holder, known.signing_key if known else None)
            try:
                files = store.get(reference(name, run, "plan", holder))
                good = files and any(
                    signed_by(key, files[MANIFEST], files[SIGNATURE]) for key in keys
                )
                document = read_json(files[DOCUMENT]) if files and good else None
                # Of an older release, too: what it has given is to be charged.
                plan = parse_plan(document, place) if document else None
            except (OpBoostError, KeyError, ValueError):
                continue
            if newest and plan and not fields(newest.content, plan.federation):
                return plan.federation
    raise ConfigError(
        f"What {name} declares is not known: {site.party} has agreed to nothing in it, or no plan "
        "of what it has agreed to is in the store.",
        f"Agree first (`opboost agree SITE FEDERATION`), then recover. Nothing was charged for "
        f"{name}.",
    )


def _begin_anew(state: PartyState, policy: Policy) -> int:
    """Charge what lost cell states cannot tell, once more at the cap, and begin them again."""
    lost = state.lost_states(verify=True)
    for one in lost:
        column, key = one.column, one.key
        rule = policy.rule_of(column, one.charge.partition("=")[0])
        most = rule.max_changes if rule is not None else None
        after = key.worst.after_loss(most, 0, key.inputs)
        name = _name(f"accepted/{column}/{key.cells}/{after.number}")
        draw = Draw(
            number=after.number,
            most=most,
            added=after.values - key.worst.values,
            worst=after.values,
            base=after.base,
            inputs=key.inputs,
        )
        line = Release(
            federation="all",
            run="",
            party=policy.party,
            receiver=key.receiver,
            kind="accepted",
            artifact=name,
            account="local_dp",
            feature=one.charge,
            column=column,
            cells=key.cells,
            draws=name,
            draw=draw,
            loss=key.loss,
            rows=0,
            recovered=True,
        )
        state.ledger.reserve([line])
        state.cells.replace(column, key.cells, empty_state(Domain(0, key.inputs - 1)))
    return len(lost)


def _begin_routes_anew(state: PartyState) -> int:
    """Begin lost states of routed answers again; these have no loss that could be charged."""
    accounts = state.ledger.accounts()
    charged = {(column, key.cells) for column in accounts for key in accounts[column].keys.values()}
    lost = [
        place
        for place in state.cells.generations()
        if place not in charged and not state.cells.is_whole(*place)
    ]
    for place in lost:
        state.cells.remove(*place)
    return len(lost)


def _name(place: str) -> str:
    return hashlib.sha256(place.encode()).hexdigest()
