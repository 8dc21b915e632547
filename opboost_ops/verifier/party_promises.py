"""Promises that a party can check with its own folder and the store."""

import hashlib
import json
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from opboost_ops.verifier.outcomes import Outcome
from opboost_ops.verifier.party_state import Loss, PartyState, last_loss
from opboost_ops.verifier.places import Party
from opboost_ops.verifier.plans import Plan, canonical
from opboost_ops.verifier.store_promises import RELEASES
from opboost_ops.verifier.stores import Artifact, Run

#: Entries of a federation file that may change without a new agreement; ``*`` is any party.
_FREE = (
    "schedule",
    "scoring.cron",
    "parties.*.queue",
    "scoring.threshold",
    "scoring.calibration",
    "scoring.interval",
    "scoring.reasons",
)

#: Entries of ``training`` that may change in vertical learning, too.
_FREE_TRAINING = frozenset(
    {"trees", "learning_rate", "depth", "tolerance", "denoise", "parameters", "objective"}
    | {"class_weight", "early_stopping", "tuning"}
)

#: Values of the other entries where an agreement does not name them.
_DEFAULT_TRAINING = {"trainer": "lightgbm", "holdout": 0.2, "weight_column": None}

_GENESIS = "0" * 64


@dataclass(frozen=True)
class OwnSide:
    """A party, its state, and what it published.

    Attributes:
        party: The party's folder.
        state: Its database.
        runs: The runs of its store that it takes part in, with their plans.
    """

    party: Party
    state: PartyState
    runs: list[tuple[Run, Plan]]

    @property
    def published(self) -> list[tuple[Artifact, Plan]]:
        """The artifacts that the party published itself."""
        return [
            (artifact, plan)
            for run, plan in self.runs
            for artifact in run.artifacts.values()
            if plan.signer(artifact.kind, artifact.about) == self.party.name
        ]


def check_party(outcome: Outcome, own: OwnSide) -> None:
    """Check what every party can check, whatever its role.

    Args:
        outcome: The party's.
        own: The party.
    """
    _check_audit(outcome, own)
    _check_agreement(outcome, own)
    _check_ledger(outcome, own)
    _check_heads(outcome, own)


def _check_audit(outcome: Outcome, own: OwnSide) -> None:
    promise = outcome.promise(
        "audit", "The audit log is an unbroken chain, and has every published artifact."
    )
    before, logged = _GENESIS, set()
    for expected, (number, text, digest) in enumerate(own.state.audit, start=1):
        chained = hashlib.sha256(f"{before}\n{number}\n{text}".encode()).hexdigest()
        if not promise.check(
            number == expected and digest == chained, f"audit entry {expected}: the chain is broken"
        ):
            return
        before = digest
        with promise.reading(f"audit entry {number}"):
            entry = json.loads(text)
            if entry["action"] in ("sent", "answered"):
                logged.add((entry["place"], entry["artifact"]))
    for artifact, _ in own.published:
        promise.check(
            (artifact.place, artifact.digest) in logged, f"{artifact.place}: not in the audit log"
        )


def _check_agreement(outcome: Outcome, own: OwnSide) -> None:
    promise = outcome.promise(
        "agreement", "Nothing is published that the party's agreements do not have."
    )
    agreements = own.state.agreements
    for digest, content in agreements.items():
        promise.check(
            hashlib.sha256(canonical(content)).hexdigest() == digest,
            "an agreement has another digest",
        )
    for run, plan in own.runs:
        if not any(artifact.run == run.run for artifact, _ in own.published):
            continue
        with promise.reading(run.name):
            digest = plan.document["agreement"]
            if not promise.check(digest in agreements, f"{run.name}: under no agreement"):
                continue
            for path in _differences(plan, agreements[digest]):
                promise.breaks(f"{run.name}: {path} is not as agreed")


def _differences(plan: Plan, agreed: Mapping[str, Any]) -> list[str]:
    """The entries in which a plan differs from an agreement."""
    found = []
    if agreed["protocol"] != plan.document["protocol"]:
        found.append("protocol")
    planned, declared = json.loads(json.dumps([plan.federation, agreed["federation"]]))
    training, agreed_training = planned.pop("training", {}), declared.pop("training", {})
    for path in _FREE:
        _remove(planned, path.split("."))
        _remove(declared, path.split("."))
    for one in (planned, declared):
        for party in one["parties"].values():
            for feature in party.get("features", {}).values():
                # The table of a designed channel is agreed by its digest, and its counts by that
                # of the channel.
                if "table" in (feature.get("mechanism") or {}):
                    feature["mechanism"].pop("table")
        if not one.get("scoring"):
            one.pop("scoring", None)
    found += sorted(
        key
        for key in {*planned, *declared}
        if canonical(planned.get(key)) != canonical(declared.get(key))
    )
    free = frozenset() if plan.is_horizontal else _FREE_TRAINING
    if not plan.is_horizontal:
        for key in sorted({*training, *agreed_training} - free):
            default = _DEFAULT_TRAINING.get(key, training.get(key))
            if canonical(training.get(key)) != canonical(agreed_training.get(key, default)):
                found.append(f"training.{key}")
        for party in plan.feature_holders:
            for name, digest in plan.channel_digests(party).items():
                computed = agreed["columns"].get(f"{party}.{name}", {}).get("channel")
                if digest != computed:
                    found.append(f"the channel of {party}.{name}")
    return found


def _remove(inside: Any, path: list[str]) -> None:
    first, *rest = path
    if not isinstance(inside, dict):
        return
    if not rest:
        inside.pop(first, None)
    elif first == "*":
        for value in inside.values():
            _remove(value, rest)
    else:
        _remove(inside.get(first), rest)


def _check_ledger(outcome: Outcome, own: OwnSide) -> None:
    promise = outcome.promise(
        "ledger", "Every published artifact has its entries in the ledger, and is committed."
    )
    entries: dict[str, list[Mapping[str, Any]]] = defaultdict(list)
    with promise.reading("ledger"):
        for entry in own.state.entries:
            entries[entry["artifact"]].append(entry)
    for artifact, plan in own.published:
        with promise.reading(artifact.place):
            found = entries[artifact.digest]
            released = artifact.kind in RELEASES
            names = sorted(artifact.manifest["losses"]) if released else []
            charged = sorted(entry["feature"] for entry in found if entry["account"] == "local_dp")
            if artifact.kind == "routes":
                # Routed answers have entries of their own beside the artifact's.
                promise.check(bool(found), f"{artifact.place}: not in the ledger")
            else:
                whole = charged == names and bool(found)
                promise.check(whole, f"{artifact.place}: not in the ledger")
            promise.check(artifact.digest in own.state.commits, f"{artifact.place}: not committed")
            receiver = plan.receiver(artifact.kind, artifact.about) or artifact.about
            for entry in found:
                promise.check(
                    entry["receiver"] == receiver and entry["run"] == artifact.run,
                    f"{artifact.place}: its entry is of another receiver or run",
                )


def _check_heads(outcome: Outcome, own: OwnSide) -> None:
    promise = outcome.promise(
        "state", "The database knows every checkpoint in the party's published artifacts."
    )
    given = {
        (federation, receiver, number, head)
        for federation, receiver, number, _, _, head in own.state.checkpoints
    }
    recovered = [
        (federation, receiver, after, number)
        for federation, receiver, number, after, run, _ in own.state.checkpoints
        if not run
    ]
    for artifact, plan in own.published:
        with promise.reading(artifact.place):
            head = artifact.manifest.get("head")
            if head is None:
                continue
            receiver = plan.receiver(artifact.kind, artifact.about) or plan.label_holder
            place = (artifact.federation, receiver)
            covered = any(
                (federation, to) == place and after < head["number"] <= number
                for federation, to, after, number in recovered
            )
            promise.check(
                covered or (*place, head["number"], head["head"]) in given,
                f"{artifact.place}: the database was rolled back",
            )


def check_charges(outcome: Outcome, own: OwnSide) -> None:
    """Check a feature holder's releases, charges and budgets.

    Args:
        outcome: The party's.
        own: The party.
    """
    _check_releases(outcome, own)
    _check_entries(outcome, own)
    _check_budgets(outcome, own)


def _check_releases(outcome: Outcome, own: OwnSide) -> None:
    promise = outcome.promise(
        "releases",
        "Every published column belongs to a charged release to its receiver, with its loss.",
    )
    for artifact, plan in own.published:
        if artifact.kind not in RELEASES:
            continue
        with promise.reading(artifact.place):
            named = artifact.manifest["releases"]
            recorded = own.state.run_releases.get((artifact.federation, artifact.run), {})
            features = set(plan.parties[own.party.name]["features"])
            promise.check(set(named) == features, f"{artifact.place}: releases of other features")
            promise.check(named == recorded, f"{artifact.place}: not as the run recorded")
            for feature, name in named.items():
                release = own.state.releases.get(name)
                if not promise.check(
                    release is not None and release.kind == "values",
                    f"{artifact.place}: {feature} has no release",
                ):
                    continue
                assert release is not None
                promise.check(
                    release.receiver == plan.label_holder,
                    f"{artifact.place}: the release of {feature} is to another receiver",
                )
                curves = {
                    charge: curve
                    for charge, curve in artifact.manifest["losses"].items()
                    if charge.partition("=")[0] == feature
                }
                promise.check(
                    canonical(curves) == canonical(dict(release.losses)),
                    f"{artifact.place}: the release of {feature} was charged another loss",
                )


def _check_entries(outcome: Outcome, own: OwnSide) -> None:
    promise = outcome.promise(
        "charges", "Each release is charged once in full, and no charge is without a release."
    )
    charged: dict[str, dict[str, Any]] = defaultdict(dict)
    with promise.reading("ledger"):
        for entry in own.state.entries:
            if entry["account"] == "local_dp" and entry["artifact"] == entry["release"]:
                promise.check(
                    entry["feature"] not in charged[entry["release"]],
                    f"release {entry['release']}: charged twice",
                )
                charged[entry["release"]][entry["feature"]] = entry["loss"]
    for name, release in own.state.releases.items():
        promise.check(
            canonical(charged.pop(name, {})) == canonical(dict(release.losses)),
            f"release {name} of {release.feature}: not charged as it was opened",
        )
    for name in charged:
        promise.check(False, f"release {name}: charged, and not there")


def spent(own: OwnSide) -> dict[str, Loss]:
    """What each raw column has cost: the sum over its releases.

    Args:
        own: The party.
    """
    total: dict[str, Loss] = {}
    for release in own.state.releases.values():
        total[release.column] = total.get(release.column, Fraction(0)) + release.loss
    return total


def _check_budgets(outcome: Outcome, own: OwnSide) -> None:
    promise = outcome.promise(
        "budgets", "The ledger's entries add up to the releases' losses, within the budgets."
    )
    total, entered = spent(own), dict[str, Loss]()
    with promise.reading("ledger"):
        for entry in own.state.entries:
            if entry["account"] == "local_dp" and entry["artifact"] == entry["release"]:
                column = entry["column"]
                entered[column] = entered.get(column, Fraction(0)) + last_loss(entry["loss"])
    for column in sorted({*total, *entered}):
        promise.check(
            total.get(column) == entered.get(column), f"{column}: its entries do not add up"
        )
    with promise.reading("policy.yaml"):
        policy = own.party.policy
        for name, rule in (policy.get("features") or {}).items():
            budget = (rule or {}).get("budget")
            if budget is not None:
                column = str(rule.get("column") or name).strip()
                over = total.get(column, 0) > Fraction(budget)
                promise.check(not over, f"{column}: more is spent than its budget")
        whole = (policy.get("all_features") or {}).get("budget")
        if whole is not None:
            everything = sum(total.values(), Fraction(0))
            promise.check(everything <= Fraction(whole), "more is spent than all_features.budget")
