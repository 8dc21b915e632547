"""Promises that a party can check with its own folder and the store."""

import json
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from fractions import Fraction
from functools import cached_property
from pathlib import Path
from typing import Any

from opboost_ops.verifier import sealed_rows
from opboost_ops.verifier.outcomes import DAMAGED, Check, NotCheckableError
from opboost_ops.verifier.party_state import Loss, PartyState, last_loss
from opboost_ops.verifier.places import DOCUMENT, Artifact, Party, canonical, sha256
from opboost_ops.verifier.plans import RELEASES, ROUNDS, Plan

#: Entries of a federation file that may change without a new agreement; training is apart, and the
#: counts of a designed channel are agreed by the digest of the channel.
_FREE = re.compile(
    r"(schedule|scoring\.(cron|cost_ratio|calibration|interval|reasons)|training)(\..*)?"
    r"|parties\.[^.]*\.queue|parties\..*\.mechanism\.table(\..*)?"
)

#: Entries of ``training`` that may change in vertical learning.
_FREE_TRAINING = frozenset(
    {"trees", "learning_rate", "depth", "tolerance", "denoise", "parameters", "objective"}
    | {"early_stopping", "tuning"}
)

#: Values of entries of ``training`` where an agreement does not name them; others are null.
_DEFAULT_TRAINING = {
    "trainer": "lightgbm",
    "trees": 80,
    "learning_rate": 0.1,
    "depth": 3,
    "holdout": 0.2,
    "tolerance": 0.0,
    "private": {"epsilon": 4.0, "delta": 1e-6},
}


class OwnSide:
    """A party: its folder, its database, its keys, and the plans of runs that it takes part in.

    Of ``artifacts`` with their plans ``published`` are its own, without those ``lost`` before a
    recovery; ``entries`` are the ledger's by what they are about, ``charges`` those of releases.
    """

    def __init__(self, party: Party, state: PartyState, plans: list[Plan]) -> None:
        self.party, self.state, self.plans = party, state, plans
        self.artifacts = [(a, plan) for plan in plans for a in plan.artifacts.values()]
        signed = [(a, p) for a, p in self.artifacts if p.signer(a.kind, a.about) == party.name]
        self.lost = [each for each in signed if self._was_lost(*each)]
        self.published = [each for each in signed if each not in self.lost]
        self.entries: defaultdict[str, list[Mapping[str, Any]]] = defaultdict(list)
        for entry in state.entries:
            self.entries[entry["artifact"]].append(entry)
        local = [entry for entry in state.entries if entry["account"] == "local_dp"]
        self.charges = [entry for entry in local if entry["artifact"] == entry["release"]]

    def _was_lost(self, artifact: Artifact, plan: Plan) -> bool:
        """True if a recovery, whose run is empty, covers an artifact's checkpoint."""
        try:
            number = artifact.manifest["head"]["number"]
        except DAMAGED:
            return False
        place = (artifact.federation, plan.receiver(artifact) or plan.label_holder, "")
        return any(
            (name, to, run) == place and after < number <= last
            for name, to, last, after, run, _ in self.state.checkpoints
        )

    @property
    def spent(self) -> dict[str, Loss]:
        """The cost of each raw column: the sum over its releases."""
        return _sums((release.column, release.loss) for release in self.state.releases.values())

    @cached_property
    def secret(self) -> bytes:
        """The party's secret; NotCheckableError if it is not in a file."""
        path = self.party.path("secret", "keys/noise.secret")
        secret = path.read_bytes() if path and path.is_file() else b""
        if sealed_rows.keyed_by(secret, "fingerprint").hex()[:16] != self.state.secret:
            raise NotCheckableError("the party's secret in a file")
        return secret

    def encryption_key(self, plan: Plan) -> bytes:
        """The private half of the encryption key that a plan declares."""
        newest = self.party.path("encryption_key", "keys/encryption.key") or Path()
        former = newest.parent.glob(f"{newest.name}.until-*")
        for path in filter(Path.is_file, [newest, *former]):
            private, public = sealed_rows.key_pair(path)
            if public == plan.parties[self.party.name].get("encryption_key"):
                return private
        raise NotCheckableError("the encryption key of the time in a file")

    def opened(self, artifact: Artifact, plan: Plan, name: str = DOCUMENT) -> bytes:
        """A file that is addressed to the party; ValueError if it is not that of the manifest."""
        raw = artifact.stored[name].read_bytes()
        if artifact.is_encrypted:
            raw = sealed_rows.decrypted(raw, self.encryption_key(plan), artifact.digest, name)
        if sha256(raw) != artifact.manifest["files"][name]["sha256"]:
            raise ValueError("another digest")
        return sealed_rows.unsalted(raw) if artifact.is_encrypted else raw

    def home_file(self, plan: Plan, name: str) -> Path:
        """A file of the party's private folder of a run; NotCheckableError if it was removed."""
        folder = self.party.path("home", "home") or Path()
        path = folder / plan.run / name
        if not path.is_file():
            raise NotCheckableError("the home folders of runs that were removed")
        return path


def check_audit(own: OwnSide) -> Iterator[Check]:
    """The audit log is an unbroken chain, and has what was published and received as it is."""
    before, logged = "0" * 64, set()
    received: dict[str, str] = {}
    for expected, (number, text, digest) in enumerate(own.state.audit, start=1):
        chained = sha256(f"{before}\n{number}\n{text}".encode())
        yield number == expected and digest == chained, f"the chain is broken at entry {expected}"
        before, entry = digest, json.loads(text)
        if entry["action"] in ("sent", "answered"):
            logged.add((entry["place"], entry["artifact"]))
        elif entry["action"] == "received":
            received[entry["place"]] = entry["artifact"]
    for artifact, _ in own.published:
        if artifact.kind not in ROUNDS:
            is_logged = (artifact.place, artifact.digest) in logged
            yield is_logged, f"{artifact.place} is not in it"
    for artifact, _ in own.artifacts:
        same = received.get(artifact.place, artifact.digest) == artifact.digest
        yield same, f"{artifact.place} is another one than was received"
    for plan in own.plans:
        rounds = [a for a, its in own.published if its is plan and a.kind in ROUNDS]
        if rounds:
            yield not logged.isdisjoint(_hashes(own, plan, rounds)), f"{plan.run}: no rounds in it"
    if own.lost:
        yield None, "artifacts of before a recovery, whose entries were lost"


def _hashes(own: OwnSide, plan: Plan, rounds: list[Artifact]) -> Iterator[tuple[str, str]]:
    """The entries that may stand for rounds: of all, or of those since a resumption."""
    kind = "decision" if own.party.name == plan.label_holder else "masked"
    first, *rest = sorted(rounds, key=lambda a: (a.kind != "round_key", a.place))
    for at in range(len(rest) + 1):
        digest = ""
        for artifact in [first, *rest[at:]]:
            digest = sha256(f"{digest}{artifact.digest}".encode())
        yield f"{plan.run}/{kind}/{own.party.name}/all", digest


def check_received(own: OwnSide, artifact: Artifact, plan: Plan) -> Iterator[Check]:
    """Each file that is addressed to the party opens, and has the digest of its manifest."""
    for name in artifact.manifest["files"]:
        own.opened(artifact, plan, name)
        yield True, ""


def check_agreement(own: OwnSide, plan: Plan) -> Iterator[Check]:
    """Nothing is published that the party's agreements do not have."""
    digest, agreements = plan.document["agreement"], own.state.agreements
    yield digest in agreements, "under no agreement"
    if digest in agreements:
        content = agreements[digest]
        yield sha256(canonical(content)) == digest, "a changed agreement"
        differences = _differences(plan, content)
        yield not differences, f"{', '.join(differences)} not as agreed"


def _differences(plan: Plan, agreed: Mapping[str, Any]) -> list[str]:
    """The entries in which a plan differs from an agreement."""
    planned, declared = (dict(entries_of(each)) for each in (plan.federation, agreed["federation"]))
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
        # Exact sums are null in an agreement, and said in so many words in a plan.
        value = None if plan.training.get(key) == "none" else plan.training.get(key)
        if dict(entries_of(value)) != dict(entries_of((_DEFAULT_TRAINING | training).get(key))):
            paths.append(f"training.{key}")
    for party in plan.feature_holders:
        for column in plan.columns(party):
            name = f"{party}.{column.name}"
            if column.channel_digest != agreed["columns"].get(name, {}).get("channel"):
                paths.append(f"the channel of {name}")
    return paths


def entries_of(value: Any, path: str = "") -> Iterator[tuple[str, bytes]]:
    """The entries of JSON values by path; one that is null is as if it were absent."""
    if isinstance(value, Mapping):
        for key, inner in value.items():
            yield from entries_of(inner, f"{path}.{key}" if path else key)
    elif value is not None:
        yield path, canonical(value)


def check_ledger(own: OwnSide, artifact: Artifact, plan: Plan) -> Iterator[Check]:
    """Every published artifact has its entries in the ledger, and is committed."""
    if artifact.kind in ROUNDS:
        # What rounds disclose is entered before the first one, by run.
        kinds = {entry["kind"] for entry in own.state.entries if entry["run"] == artifact.run}
        yield any(kind.startswith("boost_") for kind in kinds), "its rounds are not in the ledger"
        return
    entries = own.entries[artifact.digest]
    names = sorted(artifact.manifest["losses"]) if artifact.kind in RELEASES else []
    charged = sorted(entry["feature"] for entry in entries if entry["account"] == "local_dp")
    yield bool(entries) and charged == names, "not in the ledger"
    yield artifact.digest in own.state.commits, "not committed"
    receiver = plan.receiver(artifact) or artifact.about
    fact = (receiver, artifact.run, artifact.kind, artifact.manifest["rows"])
    stated = {tuple(entry[key] for key in ("receiver", "run", "kind", "rows")) for entry in entries}
    yield stated <= {fact}, "its entry states another receiver, run, kind or row count"


def check_state(own: OwnSide, artifact: Artifact, plan: Plan) -> Iterator[Check]:
    """The database knows every checkpoint in the party's published artifacts."""
    head = artifact.manifest.get("head")
    if head is not None:
        receiver = plan.receiver(artifact) or plan.label_holder
        checkpoint = (artifact.federation, receiver, head["number"], head["head"])
        stored = {(name, to, number, d) for name, to, number, _, _, d in own.state.checkpoints}
        yield checkpoint in stored, "the database was rolled back"


def check_releases(own: OwnSide, artifact: Artifact, plan: Plan) -> Iterator[Check]:
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


def check_charges(own: OwnSide) -> Iterator[Check]:
    """Each release is charged once in full, and no charge is without a release."""
    charged: dict[str, dict[str, Any]] = defaultdict(dict)
    for entry in own.charges:
        name, feature = entry["release"], entry["feature"]
        yield feature not in charged[name], f"{feature} was charged twice"
        charged[name][feature] = entry["loss"]
        yield name in own.state.releases, f"{feature} was charged without a release"
    for name, release in own.state.releases.items():
        whole = canonical(charged[name]) == canonical(dict(release.losses))
        yield whole, f"{release.feature} was not charged as it was released"


def check_budgets(own: OwnSide) -> Iterator[Check]:
    """The ledger's entries add up to the releases' losses, within the budgets."""
    total, policy = own.spent, own.party.policy
    entered = _sums((e["column"], last_loss(e["loss"])) for e in own.charges)
    for column in sorted({*total, *entered}):
        yield total.get(column) == entered.get(column), f"{column}: its entries do not add up"
    for name, rule in (policy.get("features") or {}).items():
        if rule and rule.get("budget") is not None:
            column = str(rule.get("column") or name).strip()
            within = total.get(column, 0) <= Fraction(rule["budget"])
            yield within, f"{column}: more is spent than its budget"
    budget = (policy.get("all_features") or {}).get("budget")
    if budget is not None:
        everything = sum(total.values(), Fraction(0))
        yield everything <= Fraction(budget), "more is spent than all_features.budget"


def check_queries(own: OwnSide) -> Iterator[Check]:
    """Every answered query is counted, within the caps on different people."""
    months: dict[tuple[str, str], int] = defaultdict(int)
    everybody: dict[str, int] = defaultdict(int)
    for receiver, month, _, people in own.state.asked:
        months[receiver, month] += people
        everybody[receiver] += people
    caps = own.party.policy.get("alignment") or {}
    counts = {"max_new_queries": months.values(), "max_queries_total": everybody.values()}
    for name, people in counts.items():
        cap = caps.get(name)
        yield cap is None or max(people, default=0) <= cap, f"more than {name}"
    counted = {query for _, _, query, _ in own.state.asked}
    for artifact, plan in own.published:
        if artifact.kind == "psi_answer":
            month = months[plan.label_holder, plan.document["epoch"]]
            is_counted = artifact.manifest["answers"] in counted
            is_whole = artifact.manifest["rows"] <= month
            yield is_counted and is_whole, f"{artifact.place} is not counted"


def _sums(losses: Iterable[tuple[str, Loss]]) -> dict[str, Loss]:
    total: dict[str, Loss] = {}
    for column, loss in losses:
        total[column] = total.get(column, Fraction(0)) + loss
    return total
