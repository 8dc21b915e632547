"""Promises that a party can check with its own folder and the store."""

import hashlib
import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from opboost_ops.verifier.outcomes import Check, Outcome
from opboost_ops.verifier.party_state import Loss, PartyState, last_loss
from opboost_ops.verifier.places import Artifact, Party, Run
from opboost_ops.verifier.plans import ROUNDS, Plan, canonical
from opboost_ops.verifier.store_promises import RELEASES

#: Entries of a federation file that may change without a new agreement; ``*`` is any party.
_FREE = (
    "schedule",
    "scoring.cron",
    "parties.*.queue",
    "scoring.cost_ratio",
    "scoring.calibration",
    "scoring.interval",
    "scoring.reasons",
)

#: Entries of ``training`` that may change in vertical learning, too.
_FREE_TRAINING = frozenset(
    {"trees", "learning_rate", "depth", "tolerance", "denoise", "parameters", "objective"}
    | {"early_stopping", "tuning"}
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
    def published(self) -> list[tuple[Artifact, Run, Plan]]:
        """The artifacts that the party published itself, with their runs."""
        return [each for each in self._signed if not self._was_lost(*each)]

    @property
    def has_recovered(self) -> bool:
        """True if the database lost what it had of some artifacts, and was recovered since."""
        return any(self._was_lost(*each) for each in self._signed)

    @property
    def _signed(self) -> list[tuple[Artifact, Run, Plan]]:
        return [
            (artifact, run, plan)
            for run, plan in self.runs
            for artifact in run.artifacts.values()
            if plan.signer(artifact.kind, artifact.about) == self.party.name
        ]

    def _was_lost(self, artifact: Artifact, _: Run, plan: Plan) -> bool:
        receiver = plan.receiver(artifact.kind, artifact.about) or plan.label_holder
        head = artifact.manifest.get("head")
        return head is not None and self.state.was_lost(artifact.federation, receiver, head)


def check_party(outcome: Outcome, own: OwnSide) -> None:
    """Check what every party can check, whatever its role."""
    logged: set[tuple[str, str]] = set()
    promise = outcome.promise(_audit)
    promise.run(_audit(own, logged), "audit log")
    if own.has_recovered:
        promise.run([(None, "artifacts of before a recovery, whose entries were lost")])
    for run, plan in own.runs:
        promise.run(_logged(own, run, plan, logged), run.name)
    promise = outcome.promise(_agreement)
    for run, plan in own.runs:
        if any(artifact.run == run.run for artifact, *_ in own.published):
            promise.run(_agreement(own, plan), run.name)
    for check in (_ledger, _state):
        promise = outcome.promise(check)
        for artifact, _, plan in own.published:
            promise.run(check(own, artifact, plan), artifact.place)


def check_charges(outcome: Outcome, own: OwnSide) -> None:
    """Check a feature holder's releases, charges and budgets."""
    promise = outcome.promise(_releases)
    for artifact, _, plan in own.published:
        if artifact.kind in RELEASES:
            promise.run(_releases(own, artifact, plan), artifact.place)
    for check in (_charges, _budgets):
        outcome.promise(check).run(check(own), "ledger")


def spent(own: OwnSide) -> dict[str, Loss]:
    """The cost of each raw column: the sum over its releases."""
    return _sums((release.column, release.loss) for release in own.state.releases.values())


def _audit(own: OwnSide, logged: set[tuple[str, str]]) -> Iterator[Check]:
    """The audit log is an unbroken chain, and has every published artifact."""
    before = _GENESIS
    for expected, (number, text, digest) in enumerate(own.state.audit, start=1):
        chained = hashlib.sha256(f"{before}\n{number}\n{text}".encode()).hexdigest()
        yield number == expected and digest == chained, f"the chain is broken at entry {expected}"
        before, entry = digest, json.loads(text)
        if entry["action"] in ("sent", "answered"):
            logged.add((entry["place"], entry["artifact"]))


def _logged(own: OwnSide, run: Run, plan: Plan, logged: set[tuple[str, str]]) -> Iterator[Check]:
    mine = [artifact for artifact, its_run, _ in own.published if its_run is run]
    rounds = [artifact for artifact in mine if artifact.kind in ROUNDS]
    for artifact in mine:
        if artifact.kind not in ROUNDS:
            listed = (artifact.place, artifact.digest) in logged
            yield listed, f"{artifact.kind}/{artifact.about} is not in the audit log"
    if rounds:
        # One entry has the hash of all messages in their order, those before a resumption excepted.
        first, *rest = sorted(rounds, key=lambda a: (a.kind != "round_key", a.place))
        kind = "decision" if own.party.name == plan.label_holder else "masked"
        place = f"{run.name}/{kind}/{own.party.name}/all"
        chains = (_chained([first, *rest[at:]]) for at in range(len(rest) + 1))
        yield any((place, chain) in logged for chain in chains), "its rounds are not in the log"


def _chained(artifacts: list[Artifact]) -> str:
    digest = ""
    for artifact in artifacts:
        digest = hashlib.sha256(f"{digest}{artifact.digest}".encode()).hexdigest()
    return digest


def _agreement(own: OwnSide, plan: Plan) -> Iterator[Check]:
    """Nothing is published that the party's agreements do not have."""
    digest, agreements = plan.document["agreement"], own.state.agreements
    yield digest in agreements, "under no agreement"
    if digest in agreements:
        content = agreements[digest]
        yield hashlib.sha256(canonical(content)).hexdigest() == digest, "a changed agreement"
        differences = _differences(plan, content)
        yield not differences, f"{', '.join(differences)} not as agreed"


def _differences(plan: Plan, agreed: Mapping[str, Any]) -> list[str]:
    """The entries in which a plan differs from an agreement."""
    planned, declared = _stated(plan.federation), _stated(agreed["federation"])
    training, agreed_training = planned.pop("training", {}), declared.pop("training", {})
    for content in (planned, declared):
        for path in _FREE:
            _remove(content, path.split("."))
        for party in content["parties"].values():
            for feature in party.get("features", {}).values():
                # The counts of a designed channel are agreed by the digest of the channel.
                (feature.get("mechanism") or {}).pop("table", None)
        if not content.get("scoring"):
            content.pop("scoring", None)
    paths = [
        key
        for key in sorted({*planned, *declared})
        if canonical(planned.get(key)) != canonical(declared.get(key))
    ]
    if agreed["protocol"] != plan.document["protocol"]:
        paths.append("protocol")
    if plan.is_horizontal:
        return paths
    for key in sorted({*training, *agreed_training} - _FREE_TRAINING):
        default = _DEFAULT_TRAINING.get(key, training.get(key))
        if canonical(training.get(key)) != canonical(agreed_training.get(key, default)):
            paths.append(f"training.{key}")
    for party in plan.feature_holders:
        for column in plan.columns(party):
            name = f"{party}.{column.name}"
            if column.channel_digest != agreed["columns"].get(name, {}).get("channel"):
                paths.append(f"the channel of {name}")
    return paths


def _stated(value: Any) -> Any:
    """A copy of JSON values without entries that are null, which is as if they were absent."""
    if isinstance(value, Mapping):
        return {key: _stated(inner) for key, inner in value.items() if inner is not None}
    return [_stated(inner) for inner in value] if isinstance(value, list) else value


def _remove(inside: Any, path: list[str]) -> None:
    first, *rest = path
    if not isinstance(inside, dict):
        return
    if not rest:
        inside.pop(first, None)
        return
    for value in inside.values() if first == "*" else [inside.get(first)]:
        _remove(value, rest)


def _ledger(own: OwnSide, artifact: Artifact, plan: Plan) -> Iterator[Check]:
    """Every published artifact has its entries in the ledger, and is committed."""
    if artifact.kind in ROUNDS:
        # What rounds disclose is entered before the first one, by run.
        of_run = [e["kind"] for e in own.state.entries if e["run"] == artifact.run]
        yield any(kind.startswith("boost_") for kind in of_run), "its rounds are not in the ledger"
        return
    entries = own.state.entries_of(artifact.digest)
    names = sorted(artifact.manifest["losses"]) if artifact.kind in RELEASES else []
    charged = sorted(entry["feature"] for entry in entries if entry["account"] == "local_dp")
    yield bool(entries) and charged == names, "not in the ledger"
    yield artifact.digest in own.state.commits, "not committed"
    receiver = plan.receiver(artifact.kind, artifact.about) or artifact.about
    stated = {(entry["receiver"], entry["run"]) for entry in entries}
    yield stated <= {(receiver, artifact.run)}, "its entry is of another receiver or run"


def _state(own: OwnSide, artifact: Artifact, plan: Plan) -> Iterator[Check]:
    """The database knows every checkpoint in the party's published artifacts."""
    head = artifact.manifest.get("head")
    if head is not None:
        receiver = plan.receiver(artifact.kind, artifact.about) or plan.label_holder
        yield own.state.knows(artifact.federation, receiver, head), "the database was rolled back"


def _releases(own: OwnSide, artifact: Artifact, plan: Plan) -> Iterator[Check]:
    """Every published column belongs to a charged release to its receiver, with its loss."""
    named, losses = artifact.manifest["releases"], artifact.manifest["losses"]
    recorded = own.state.run_releases.get((artifact.federation, artifact.run), {})
    yield named == recorded, "releases that its run has not recorded"
    yield named.keys() == plan.parties[own.party.name]["features"].keys(), "other features"
    for feature, name in named.items():
        release = own.state.releases.get(name)
        if release is None or release.kind != "values":
            yield False, f"{feature} has no release"
            continue
        yield release.receiver == plan.label_holder, f"{feature} is for another receiver"
        curves = {n: curve for n, curve in losses.items() if n.partition("=")[0] == feature}
        same = canonical(curves) == canonical(dict(release.losses))
        yield same, f"{feature} was charged another loss"


def _charges(own: OwnSide) -> Iterator[Check]:
    """Each release is charged once in full, and no charge is without a release."""
    charged: dict[str, dict[str, Any]] = defaultdict(dict)
    for entry in own.state.charges:
        name, feature = entry["release"], entry["feature"]
        yield feature not in charged[name], f"{feature} was charged twice"
        charged[name][feature] = entry["loss"]
        yield name in own.state.releases, f"{feature} was charged without a release"
    for name, release in own.state.releases.items():
        whole = canonical(charged[name]) == canonical(dict(release.losses))
        yield whole, f"{release.feature} was not charged as it was released"


def _budgets(own: OwnSide) -> Iterator[Check]:
    """The ledger's entries add up to the releases' losses, within the budgets."""
    total = spent(own)
    entered = _sums((e["column"], last_loss(e["loss"])) for e in own.state.charges)
    for column in sorted({*total, *entered}):
        yield total.get(column) == entered.get(column), f"{column}: its entries do not add up"
    policy = own.party.policy
    for name, rule in (policy.get("features") or {}).items():
        if rule and rule.get("budget") is not None:
            column = str(rule.get("column") or name).strip()
            within = total.get(column, 0) <= Fraction(rule["budget"])
            yield within, f"{column}: more is spent than its budget"
    budget = (policy.get("all_features") or {}).get("budget")
    if budget is not None:
        everything = sum(total.values(), Fraction(0))
        yield everything <= Fraction(budget), "more is spent than all_features.budget"


def _sums(losses: Iterable[tuple[str, Loss]]) -> dict[str, Loss]:
    total: dict[str, Loss] = {}
    for column, loss in losses:
        total[column] = total.get(column, Fraction(0)) + loss
    return total
