"""Promises that every party can check with its own folder and the store."""

import hmac
import json
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from fractions import Fraction
from functools import cached_property
from pathlib import Path
from typing import Any

from opboost_ops.verifier import sealed_rows
from opboost_ops.verifier.outcomes import READ_ERRORS, Check, NotCheckableError
from opboost_ops.verifier.party_state import Loss, PartyState, full_range_loss
from opboost_ops.verifier.places import DOCUMENT, Artifact, Party, canonical, sha256
from opboost_ops.verifier.plans import KINDS, RELEASES, ROUNDS, Plan

#: Paths in a federation file that may change without a new agreement. ``training`` is compared
#: separately; agreements contain the counts of a designed channel as the channel's digest.
_FREE = re.compile(
    r"(schedule|scoring\.(cron|cost_ratio|calibration|interval|reasons)|training)(\..*)?"
    r"|parties\.[^.]*\.queue|parties\..*\.mechanism\.table(\..*)?"
)

#: Keys of ``training`` that may change in vertical learning without a new agreement.
_FREE_TRAINING = frozenset(
    {"trees", "learning_rate", "depth", "tolerance", "denoise", "parameters", "objective"}
    | {"early_stopping", "tuning"}
)

#: Defaults of ``training`` for keys that an agreement omits; all others are null.
_DEFAULT_TRAINING = {"trainer": "lightgbm", "trees": 80, "learning_rate": 0.1, "depth": 3} | {
    "holdout": 0.2, "tolerance": 0.0, "private": {"epsilon": 4.0, "delta": 1e-6}
}  # fmt: skip


class OwnRecords:
    """A party's folder, database and keys, with the plans and artifacts of its runs.

    ``published`` are the artifacts that the party signed, except those ``lost`` before a recovery;
    ``entries`` are ledger entries by artifact, ``kinds`` by run; ``charges`` are those of releases.
    """

    def __init__(self, party: Party, state: PartyState, plans: list[Plan]) -> None:
        self.party, self.state, self.plans = party, state, plans
        self.pins = party.path("pins", "pins") or Path()
        self.artifacts = [(a, plan) for plan in plans for a in plan.artifacts.values()]
        signed = [(a, p) for a, p in self.artifacts if p.signer(a.kind, a.about) == party.name]
        self.lost = [each for each in signed if self._was_lost(*each)]
        self.published = [each for each in signed if each not in self.lost]
        self.entries: defaultdict[str, list[Mapping[str, Any]]] = defaultdict(list)
        self.kinds: defaultdict[tuple[str, str], set[str]] = defaultdict(set)
        for entry in state.entries:
            self.entries[entry["artifact"]].append(entry)
            self.kinds[entry["federation"], entry["run"]].add(entry["kind"])
        local = [entry for entry in state.entries if entry["account"] == "local_dp"]
        self.charges = [entry for entry in local if entry["artifact"] == entry["release"]]

    def _was_lost(self, artifact: Artifact, plan: Plan) -> bool:
        """True if a recovery, which is a checkpoint without run, skipped the artifact's number."""
        place = (artifact.federation, plan.receiver(artifact) or plan.label_holder, "")
        with suppress(*READ_ERRORS):
            number = artifact.manifest["head"]["number"]
            for name, to, last, after, run, _, _ in self.state.checkpoints:
                if (name, to, run) == place and after < number <= last:
                    return True
        return False

    @property
    def spent(self) -> dict[str, Loss]:
        """The loss of each raw column, summed over its releases."""
        return _totals((release.column, release.loss) for release in self.state.releases.values())

    @cached_property
    def secret(self) -> bytes:
        """The party's secret; NotCheckableError if it is not stored in a file."""
        path = self.party.path("secret", "keys/noise.secret")
        secret = path.read_bytes() if path and path.is_file() else b""
        if sealed_rows.derive_key(secret, "fingerprint").hex()[:16] != self.state.secret:
            raise NotCheckableError("the party's secret in a file")
        return secret

    def encryption_key(self, plan: Plan) -> bytes:
        """The private key of the party's encryption key in a plan."""
        newest = self.party.path("encryption_key", "keys/encryption.key") or Path()
        former = newest.parent.glob(f"{newest.name}.until-*")
        for path in filter(Path.is_file, [newest, *former]):
            private, public = sealed_rows.key_pair(path)
            if public == plan.parties[self.party.name].get("encryption_key"):
                return private
        raise NotCheckableError("the encryption key of the run's time in a file")

    def open_file(self, artifact: Artifact, plan: Plan, name: str = DOCUMENT) -> bytes:
        """The content of a file addressed to the party; ValueError if its digest is wrong."""
        raw = artifact.stored[name].read_bytes()
        if artifact.is_encrypted:
            raw = sealed_rows.decrypt_file(raw, self.encryption_key(plan), artifact.digest, name)
        if sha256(raw) != artifact.manifest["files"][name]["sha256"]:
            raise ValueError("wrong digest")
        # A salted file is 32 bytes of salt, 8 bytes of length, the content, and zeros.
        return raw[40:][: int.from_bytes(raw[32:40], "little")] if artifact.is_encrypted else raw

    def home_file(self, plan: Plan, name: str) -> Path:
        """A file in the party's private folder of a run; NotCheckableError if it was removed."""
        folder = self.party.path("home", "home") or Path()
        path = folder / plan.run / name
        if not path.is_file():
            raise NotCheckableError("home folders of runs, which were removed")
        return path


def check_audit(own: OwnRecords) -> Iterator[Check]:
    """The audit log is an unbroken hash chain and records what was agreed, published, received."""
    previous, logged, in_force = "0" * 64, set(), set()
    agreements = {a.place: plan.document["agreement"] for a, plan in own.published}
    digests: dict[str, str] = {}
    for expected, (number, text, digest) in enumerate(own.state.audit, start=1):
        chained = sha256(f"{previous}\n{number}\n{text}".encode())
        yield number == expected and digest == chained, f"the chain is broken at entry {expected}"
        previous, entry = digest, json.loads(text)
        action, place, artifact_digest = (entry[key] for key in ("action", "place", "artifact"))
        if action == "agreed":
            in_force.add(artifact_digest)
        elif action == "withdrawn":
            in_force.discard(artifact_digest)
        elif action in ("sent", "answered", "received"):
            # Rounds have an entry per resumption.
            first = digests.setdefault(place, artifact_digest)
            is_one = first == artifact_digest or place.endswith("/all")
            yield is_one, f"{place} has entries for two artifacts"
            if action != "received":
                logged.add((place, artifact_digest))
                is_agreed = place not in agreements or agreements[place] in in_force
                yield is_agreed, f"{place} was published under no agreement in force"
    yield in_force == own.state.in_force, "the database has other agreements in force"
    for artifact, _ in own.published:
        if artifact.kind not in ROUNDS:
            is_logged = (artifact.place, artifact.digest) in logged
            yield is_logged, f"no entry for {artifact.place}"
    for artifact, _ in own.artifacts:
        is_same = digests.get(artifact.place, artifact.digest) == artifact.digest
        yield is_same, f"{artifact.place} is not the artifact that was received"
    for plan in own.plans:
        rounds = [a for a, its in own.published if its is plan and a.kind in ROUNDS]
        if rounds and rounds[0].of_run in own.state.open_sessions:
            yield None, "the rounds of runs that did not end"
        elif rounds:
            is_logged = any(entry in logged for entry in _round_entries(own, plan, rounds))
            yield is_logged, f"no entry for the rounds of {plan.run}"


def _round_entries(own: OwnRecords, plan: Plan, rounds: list[Artifact]) -> Iterator[Any]:
    """Place and digest of an entry for all rounds, or for those since any possible resumption."""
    kind = "decision" if own.party.name == plan.label_holder else "masked"
    first, *rest = sorted(rounds, key=lambda a: (a.kind != "round_key", a.place))
    for start in range(len(rest) + 1):
        digest = ""
        for artifact in [first, *rest[start:]]:
            digest = sha256(f"{digest}{artifact.digest}".encode())
        yield f"{plan.run}/{kind}/{own.party.name}/all", digest


def check_received(own: OwnRecords, artifact: Artifact, plan: Plan) -> Iterator[Check]:
    """Each file addressed to the party can be decrypted and has the digest in its manifest."""
    for name in artifact.manifest["files"]:
        own.open_file(artifact, plan, name)
        yield True, ""


def check_agreement(own: OwnRecords, plan: Plan) -> Iterator[Check]:
    """Each plan complies with an agreement of the party."""
    digest, agreements = plan.document["agreement"], own.state.agreements
    yield digest in agreements, "the party has no such agreement"
    if digest in agreements:
        content = agreements[digest]
        yield sha256(canonical(content)) == digest, "the agreement was changed"
        differences = _differences(plan, content)
        yield not differences, f"the plan differs from the agreement in {', '.join(differences)}"


def _differences(plan: Plan, agreed: Mapping[str, Any]) -> list[str]:
    """The paths at which a plan differs from an agreement."""
    planned, declared = (dict(flatten(file)) for file in (plan.federation, agreed["federation"]))
    paths = [
        path
        for path in sorted(planned.keys() | declared.keys())
        if planned.get(path) != declared.get(path) and not _FREE.fullmatch(path)
    ]
    if agreed["protocol"] != plan.document["protocol"]:
        paths.append("protocol")
    training = agreed["federation"].get("training", {})
    free = () if plan.is_horizontal else _FREE_TRAINING
    for key in sorted((plan.training.keys() | training.keys()).difference(free)):
        # Sums without noise are null in an agreement, and "none" in a plan.
        value = None if plan.training.get(key) == "none" else plan.training.get(key)
        if dict(flatten(value)) != dict(flatten((_DEFAULT_TRAINING | training).get(key))):
            paths.append(f"training.{key}")
    for party in plan.feature_holders:
        for column in plan.columns(party):
            name = f"{party}.{column.name}"
            if column.channel_digest != agreed["columns"].get(name, {}).get("channel"):
                paths.append(f"the channel of {name}")
    return paths


def flatten(value: Any, path: str = "") -> Iterator[tuple[str, bytes]]:
    """The path and canonical JSON of each value in nested objects, without nulls."""
    if isinstance(value, Mapping):
        for key, inner in value.items():
            yield from flatten(inner, f"{path}.{key}" if path else key)
    elif value is not None:
        yield path, canonical(value)


def check_ledger(own: OwnRecords, artifact: Artifact, plan: Plan) -> Iterator[Check]:
    """Every published artifact has its ledger entries and is committed."""
    kinds = own.kinds[artifact.of_run]
    if artifact.kind in ROUNDS:
        # The ledger has entries per run, not per round; they precede the first round.
        has_entry = any(kind == "model" or kind.startswith("boost_") for kind in kinds)
        yield has_entry, "no entry for its rounds"
        return
    entries, manifest = own.entries[artifact.digest], artifact.manifest
    losses, releases = manifest["losses"], manifest["releases"]
    published = {name: (releases[name.partition("=")[0]], losses[name]) for name in losses}
    local = [entry for entry in entries if entry["account"] == "local_dp"]
    charged = {entry["feature"]: (entry["release"], entry["loss"]) for entry in local}
    is_complete = bool(entries) and charged == published and len(local) == len(published)
    yield is_complete, "its ledger entries are missing or incomplete"
    if artifact.kind == "routes":
        # With pinned values, a feature has an entry per release, otherwise per run.
        recorded = own.state.run_releases.get(artifact.of_run, {})
        for feature in {column.partition("=")[0] for column in manifest["columns"]}:
            places = (f"routed/{recorded.get(feature)}", f"routed/{plan.run}/{feature}")
            has_entry = any(own.entries[sha256(place.encode())] for place in places)
            yield has_entry, f"no entry for routed answers about {feature}"
    elif artifact.kind in RELEASES:
        yield "check_table" in kinds, "no entry for the check of its table"
    yield artifact.digest in own.state.commits, "it is not committed"
    receiver = plan.receiver(artifact) or artifact.about
    expected = (receiver, artifact.run, artifact.kind, manifest["rows"])
    stated = {tuple(entry[key] for key in ("receiver", "run", "kind", "rows")) for entry in entries}
    yield stated <= {expected}, "its entry states another receiver, run, kind or row count"


def check_state(own: OwnRecords, artifact: Artifact, plan: Plan) -> Iterator[Check]:
    """The database contains the checkpoints of all artifacts that the party published."""
    head = artifact.manifest.get("head")
    if head is not None:
        receiver = plan.receiver(artifact) or plan.label_holder
        checkpoint = (artifact.federation, receiver, head["number"], head["head"])
        stored = {(name, to, number, d) for name, to, number, _, _, d, _ in own.state.checkpoints}
        yield checkpoint in stored, "the database was rolled back"


def check_history(own: OwnRecords) -> Iterator[Check]:
    """Each checkpoint follows from the entries that the ledger had at that time."""
    last: dict[tuple[str, str], tuple[int, str, int]] = {}
    for name, receiver, number, _, run, head, entry in own.state.checkpoints:
        latest, previous, begin = last.get((name, receiver), (0, "0" * 64, 0))
        if number >= latest:
            last[name, receiver] = number, head, entry
        key = sealed_rows.derive_key(own.secret, f"heads:{name}/{receiver}")
        mac = hmac.new(key, f"{previous}\n{number}\n{run}".encode(), "sha256")
        for event in own.state.entries:
            is_for = (event["federation"], event["receiver"]) == (name, receiver)
            if is_for and begin < event["id"] <= entry and event["kind"] in KINDS:
                mac.update("\n{run}/{kind}/{artifact}".format_map(event).encode())
        # A recovery's checkpoint, without a run, covers entries that were lost.
        yield not run or mac.hexdigest() == head, f"checkpoint {number} had other entries"


def check_recovered(own: OwnRecords, artifact: Artifact, plan: Plan) -> Iterator[Check]:
    """Releases from before a recovery are charged, and the recovery is in the ledger."""
    for feature, name in artifact.manifest["releases"].items():
        yield name in own.state.releases, f"{feature} is not charged"
    place = (artifact.federation, plan.receiver(artifact) or plan.label_holder, "recovered")
    stated = {(e["federation"], e["receiver"], e["kind"]) for e in own.state.entries}
    yield place in stated, "no entry for a recovery"
    yield None, "other promises about artifacts from before a recovery"


def check_releases(own: OwnRecords, artifact: Artifact, plan: Plan) -> Iterator[Check]:
    """Every published column belongs to a release to its receiver that was charged its loss."""
    stated, losses = artifact.manifest["releases"], artifact.manifest["losses"]
    recorded = own.state.run_releases.get(artifact.of_run, {})
    yield stated == recorded, "its releases are not those that were recorded for its run"
    features = plan.parties[own.party.name]["features"].keys()
    yield stated.keys() == features, "its features are not those of the plan"
    for feature, name in stated.items():
        release = own.state.releases.get(name)
        if release is None or release.kind != "values":
            yield False, f"{feature} has no release"
            continue
        yield release.receiver == plan.label_holder, f"{feature} is released to another party"
        curves = {n: curve for n, curve in losses.items() if n.partition("=")[0] == feature}
        is_charged = canonical(curves) == canonical(dict(release.losses))
        yield is_charged, f"{feature} was charged another loss than it states"


def check_charges(own: OwnRecords) -> Iterator[Check]:
    """Each release is charged once and in full, and each charge has its release."""
    charged: dict[str, dict[str, Any]] = defaultdict(dict)
    for entry in own.charges:
        name, feature = entry["release"], entry["feature"]
        yield feature not in charged[name], f"{feature} was charged twice"
        charged[name][feature] = entry["loss"]
        yield name in own.state.releases, f"{feature} was charged without a release"
    for name, release in own.state.releases.items():
        is_whole = canonical(charged[name]) == canonical(dict(release.losses))
        yield is_whole, f"{release.feature} was charged another loss than its release has"


def check_budgets(own: OwnRecords) -> Iterator[Check]:
    """The charges in the ledger add up to the losses of the releases, within the budgets."""
    spent, policy = own.spent, own.party.policy
    charged = _totals((e["column"], full_range_loss(e["loss"])) for e in own.charges)
    for column in sorted({*spent, *charged}):
        yield spent.get(column) == charged.get(column), f"the charges of {column} do not add up"
    named = set()
    for name, rule in (policy.get("features") or {}).items():
        named.add(column := str((rule or {}).get("column") or name).strip())
        if rule and rule.get("budget") is not None:
            yield spent.get(column, 0) <= Fraction(rule["budget"]), f"{column} exceeds its budget"
    yield None, "the raw column of a release"
    for column in sorted(spent.keys() - named):
        yield None, f"the budget of {column}, which policy.yaml does not name"
    budget = (policy.get("all_features") or {}).get("budget")
    if budget is not None:
        total = sum(spent.values(), Fraction(0))
        yield total <= Fraction(budget), "all columns together exceed all_features.budget"


def check_queries(own: OwnRecords) -> Iterator[Check]:
    """Every answered query is counted, within the caps on queried people."""
    per_month: dict[tuple[str, str], int] = defaultdict(int)
    totals: dict[str, int] = defaultdict(int)
    for receiver, month, _, people in own.state.answered_queries:
        yield people >= 0, f"the count of a query in {month} is negative"
        per_month[receiver, month] += people
        totals[receiver] += people
    caps = own.party.policy.get("alignment") or {}
    counts = {"max_new_queries": per_month.values(), "max_queries_total": totals.values()}
    for name, people in counts.items():
        cap = caps.get(name)
        yield cap is None or max(people, default=0) <= cap, f"queries exceed {name}"
    counted = {query for _, _, query, _ in own.state.answered_queries}
    for artifact, plan in own.published:
        if artifact.kind == "psi_answer":
            people = per_month[plan.label_holder, plan.document["epoch"]]
            is_counted = artifact.manifest["answers"] in counted
            is_whole = artifact.manifest["rows"] <= people
            yield is_counted and is_whole, f"{artifact.place} is not counted in full"


def _totals(losses: Iterable[tuple[str, Loss]]) -> dict[str, Loss]:
    total: dict[str, Loss] = {}
    for column, loss in losses:
        total[column] = total.get(column, Fraction(0)) + loss
    return total
