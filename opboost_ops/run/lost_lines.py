"""What one run has released, rebuilt from its own signed artifacts and its plan."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from opboost_ops.boosting.private_federboost import noise_of
from opboost_ops.config.columns import Column, columns_of
from opboost_ops.config.federation import Federation
from opboost_ops.config.policy import Policy
from opboost_ops.config.site import Site
from opboost_ops.errors import OpBoostError
from opboost_ops.exchange.artifact import DOCUMENT
from opboost_ops.exchange.json_text import read_json
from opboost_ops.exchange.manifest import MANIFEST, SIGNATURE, receiver_of, reference
from opboost_ops.exchange.plan import Plan, parse_plan
from opboost_ops.exchange.signing import signed_by
from opboost_ops.exchange.store import Store
from opboost_ops.mechanisms import noise
from opboost_ops.privacy.events import Release
from opboost_ops.run import agreement_file
from opboost_ops.run.evidence import HomeRun, Published
from opboost_ops.run.known_keys import signed_as
from opboost_ops.stages.boost import private_of, settings_of
from opboost_ops.stages.seal import disclosed_edges


@dataclass(frozen=True)
class RunLines:
    """What a run has released.

    Attributes:
        lines: Of its artifacts.
        draws: Of its cells, one for each key, not numbered yet.
    """

    lines: tuple[Release, ...]
    draws: tuple[Release, ...]


def lines_of(
    site: Site, policy: Policy, store: Store, ones: Sequence[Published], home: HomeRun | None
) -> RunLines:
    """The lines of a run's artifacts that have none.

    Args:
        site: The party's.
        policy: Its policy: whose plan it believes.
        store: The exchange.
        ones: The artifacts, of one run.
        home: What the run's home knows, if it is there.
    """
    first = ones[0]
    holder = first.holder or (home.holder if home else "")
    plan = _plan(site, policy, store, first.federation, first.run, holder)
    lines: list[Release] = []
    draws: dict[str, Release] = {}
    for one in ones:
        towards = receiver_of(one.kind, one.about, holder) or one.about
        shared: dict[str, Any] = {
            "federation": one.federation,
            "run": one.run,
            "party": site.party,
            "receiver": towards,
            "kind": one.kind,
            "artifact": one.digest,
            "rows": one.manifest.rows if one.manifest else 0,
            "experiment": bool(one.manifest and one.manifest.experiment),
            "recovered": True,
        }
        found: list[Release] = []
        if plan is not None and one.manifest is not None and one.manifest.losses:
            found = _protected(site, policy, plan.federation, one, home, shared)
            draws |= {line.feature or "": line for line in found}
        elif plan is not None and one.kind == "routes" and one.manifest is not None:
            found = _structural(site, plan.federation, one.manifest.columns, shared)
        told = f"what {one.kind} tells; the line was lost, and rebuilt from what was published"
        lines += found or [Release(**shared, account="exact", discloses=told)]
    if plan is not None and first.manifest is not None:
        lines += _models(site, plan, first)
    if any(one.kind == "round_key" for one in ones):
        lines = [line for line in lines if line.kind != "round_key"]
    return RunLines(tuple(lines), tuple(draws.values()))


def _plan(
    site: Site, policy: Policy, store: Store, federation: str, run: str, holder: str
) -> Plan | None:
    place = reference(federation, run, "plan", holder)
    known = policy.receivers.get(holder)
    keys = signed_as(site, federation, holder, known.signing_key if known else None)
    try:
        files = store.get(place) if holder and keys else None
        if files and any(signed_by(key, files[MANIFEST], files[SIGNATURE]) for key in keys):
            return parse_plan(read_json(files[DOCUMENT]), place)
    except (OpBoostError, KeyError, ValueError):
        pass
    return None


def _protected(
    site: Site,
    policy: Policy,
    federation: Federation,
    one: Published,
    home: HomeRun | None,
    shared: dict[str, Any],
) -> list[Release]:
    assert one.manifest is not None
    recorded = agreement_file.load(site).columns
    columns = {c.charge: c for c in columns_of(federation, site.party, recorded)}
    group = policy.noise_group(federation.label_holder)
    names: Mapping[str, str] = home.draws if home else {}
    found = []
    for charge, curve in one.manifest.losses.items():
        column = columns[charge]
        under, key = _key(site, column, group)
        place = f"{one.federation}/{one.run}/{column.uuid}/{key}"
        draw = names.get(charge) or _name(place)
        edges = disclosed_edges(federation, site.party, column)
        spec = federation.parties[site.party].features[column.feature]
        found.append(
            Release(
                **shared,
                account="local_dp",
                feature=charge,
                column=column.uuid,
                noise=under,
                cells=key,
                draws=draw,
                edges=edges,
                span=spec.span if edges else None,
                loss=curve,
            )
        )
    return found


def _key(site: Site, column: Column, group: str) -> tuple[str, str]:
    """Fingerprint of the secret that a column was drawn under, and name of its noise key.

    After a rotation that is the newest secret under which there is a cell state.
    """
    keys = {
        name: column.noise_context(noise.receiver_secret(secret, group)).hex()[:16]
        for name, secret in site.noise_secrets().items()
    }
    there = [
        (n, k) for n, k in keys.items() if (site.cells / f"{column.uuid}-{k}.parquet").is_file()
    ]
    return (there or list(keys.items()))[0]


def _structural(
    site: Site, federation: Federation, names: Sequence[str], shared: dict[str, Any]
) -> list[Release]:
    """Every boundary of the domain, because the thresholds that were asked for are not in it."""
    columns = {c.name: c for c in columns_of(federation, site.party)}
    found: dict[str, Release] = {}
    for column in (columns[name] for name in names):
        spec = federation.parties[site.party].features[column.feature]
        edges: tuple[float, ...] = ()
        if column.bit is not None:
            edges = (column.bit - 0.5, column.bit + 0.5)
        elif column.charge == column.feature:
            mapping, domain = spec.domain_map(column.domain), column.domain
            edges = tuple(mapping.boundary(v) for v in range(domain.lower + 1, domain.upper + 1))
        before = found[column.charge].edges if column.charge in found else ()
        found[column.charge] = Release(
            **shared,
            account="structural",
            feature=column.charge,
            column=column.uuid,
            edges=tuple(sorted({*before, *edges})),
            span=spec.span,
            discloses="on which side of thresholds each value lies, exactly; which, was lost",
        )
    return list(found.values())


def _models(site: Site, plan: Plan, one: Published) -> list[Release]:
    """What the run's model and its noisy metrics cost the label holder's rows, if they did."""
    private = plan.federation.training.private
    if private is None or plan.purpose != "train":
        return []
    if plan.federation.learning == "horizontal":
        return _sums(site, plan, one)
    if plan.federation.label_holder != site.party:
        return []
    costs = {"model": private.epsilon, "metrics": private.metrics_epsilon}
    return [
        Release(
            federation=one.federation,
            run=one.run,
            party=site.party,
            receiver="whoever is given the model, or sees what it led to",
            kind=kind,
            artifact=_name(f"{one.federation}/{one.run}/{kind}"),
            account="model",
            epsilon=epsilon,
            rows=0,
            discloses="a model or its metrics with noise; the line was lost, and rebuilt at worst",
            recovered=True,
        )
        for kind, epsilon in costs.items()
        if epsilon is not None
    ]


def _sums(site: Site, plan: Plan, one: Published) -> list[Release]:
    """What a session of noisy sums cost the party's rows."""
    budget = private_of(plan.federation)
    if budget is None or one.kind != "round_key":
        return []
    curve = noise_of(settings_of(plan.federation), budget).curve
    sums = Release(
        federation=one.federation,
        run=one.run,
        party=site.party,
        receiver="all parties, and whoever is given the model",
        kind="model",
        artifact=_name(f"{one.federation}/{one.run}/sums"),
        account="model",
        epsilon=curve.epsilon,
        curve=curve,
        rows=0,
        discloses="sums over all parties with noise; the line was lost, and rebuilt",
        recovered=True,
    )
    private = plan.federation.training.private
    if private is None or private.metrics_epsilon is None:
        return [sums]
    metrics = {
        "receiver": "everyone who sees the run",
        "kind": "metrics",
        "artifact": _name(f"{one.federation}/{one.run}/metrics"),
        "epsilon": private.metrics_epsilon,
        "curve": None,
        "discloses": "metrics with noise; the line was lost, and rebuilt at worst",
    }
    return [sums, sums.model_copy(update=metrics)]


def _name(place: str) -> str:
    return hashlib.sha256(f"recovered/{place}".encode()).hexdigest()
