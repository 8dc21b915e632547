"""A run's plan: its parties, the columns they release by which mechanism, and its artifacts.

A plan contains a federation file without entries at their default, but with all of ``training``.
"""

import json
import re
from collections.abc import Mapping, Sequence
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import Any, NamedTuple

from opboost_ops.verifier import channels
from opboost_ops.verifier.outcomes import NotCheckableError
from opboost_ops.verifier.places import DOCUMENT, Artifact, Artifacts, sha256

#: Kinds that the label holder signs; the party that an artifact's place names signs all others.
_BY_LABEL_HOLDER = {"plan", "psi_query", "split_request", "route_request", "decision"}
_UNENCRYPTED = {"plan", "round_key", "decision"}  # addressed to all parties
_ADDRESSED = {"psi_query", "split_request", "route_request"}  # to the party that the place names
ROUNDS = {"round_key", "masked", "decision"}  # messages of rounds in horizontal learning
RELEASES = {"ranks", "values"}  # contain randomised cells and state their loss
KINDS = {*_BY_LABEL_HOLDER, *RELEASES, "psi_answer", "shares", "split_values", "routes"} - ROUNDS

#: Characters that are percent-encoded in column names of a model.
_ESCAPED_IN_NAMES = re.compile(r"[\s\",:\[\]{}/\\]")

#: Bytes that encryption adds: an X25519 key, a nonce and an authentication tag.
OVERHEAD = 32 + 12 + 16

#: Sizes of encrypted files are multiples of a step; with fewer rows, a minimum size applies.
STEP, MIN_ROWS = 4096, 1000

_HEADER_BYTES, _POINT_BYTES, _TAG_BYTES, _SHARE_BYTES = 40, 32, 10, 16


class Column(NamedTuple):
    """A released column: a feature's values, a category's bit, or the bit of missing values."""

    name: str
    feature: str
    charge: str  # name of the charge for its loss
    inputs: Sequence[int]
    outputs: Sequence[int]
    counts: channels.Counts
    ratios: Sequence[Fraction | None]  # worst ratio of the charge at each distance 1, 2, ...
    epsilon: float
    label: str  # start of the mechanism's name in manifests
    is_bit: bool

    @property
    def size(self) -> int:
        """The number of values that the column's bits in a sealed row can encode."""
        return max(len(self.inputs), max(self.outputs) - min(self.outputs) + 1)

    @property
    def channel_digest(self) -> str:
        """SHA-256 of inputs, outputs and counts, as in agreements."""
        facts = (list(self.inputs), list(self.outputs), tuple(map(tuple, self.counts)))
        return sha256(repr(facts).encode())


class Plan:
    """A run's plan, with its federation file and the artifacts of its run."""

    def __init__(self, artifact: Artifact, document: Mapping[str, Any], artifacts: Artifacts):
        self.artifact, self.document, self.artifacts = artifact, document, artifacts
        self.federation = dict(document["federation"])
        self.parties, self.training = (dict(self.federation[k]) for k in ("parties", "training"))
        self.run = f"{artifact.federation}/{artifact.run}"
        self.is_horizontal = self.federation.get("learning") == "horizontal"
        self.scoring_mode = str(self.federation.get("scoring", {}).get("mode", "desensitised"))
        # For private training, ranks number all outputs of a mechanism.
        self.numbers_outputs = self.training["trainer"] == "dpboost"

    @classmethod
    def read(cls, artifacts: Artifacts) -> "Plan":
        """The first plan of a run; one of `READ_ERRORS` if there is none."""
        artifact, *_ = [a for a in artifacts.values() if a.kind == "plan"]
        plan = cls(artifact, json.loads(artifact.stored[DOCUMENT].read_bytes()), artifacts)
        is_known = plan.document["purpose"] in ("train", "score")
        if not is_known or plan.label_holder not in plan.parties:
            raise ValueError("no plan")
        return plan

    @cached_property
    def label_holder(self) -> str:
        """The party that signs the plan."""
        if self.is_horizontal:
            return self.artifact.about
        label_holders = [n for n, p in self.parties.items() if p["role"] == "label_holder"]
        return str(label_holders[0])

    @cached_property
    def feature_holders(self) -> list[str]:
        """Names of the feature holders, in the plan's order."""
        return [n for n, p in self.parties.items() if p["role"] == "feature_holder"]

    @property
    def has_shares(self) -> bool:
        """True if a row can be opened only if each of several feature holders has the person."""
        is_left_join = self.federation.get("alignment", {}).get("overlap", "common") == "left"
        return not is_left_join and len(self.feature_holders) > 1

    def signer(self, kind: str, about: str) -> str:
        """The only party that may sign an artifact of this kind about a party."""
        return self.label_holder if kind in _BY_LABEL_HOLDER else about

    def receiver(self, artifact: Artifact) -> str | None:
        """The party that an artifact is addressed to; None if to all."""
        if artifact.kind in _UNENCRYPTED:
            return None
        return artifact.about if artifact.kind in _ADDRESSED else self.label_holder

    def receiver_key(self, artifact: Artifact) -> str | None:
        """The receiver's key for an artifact, base64; None if it is not encrypted."""
        receiver = self.receiver(artifact)
        return self.parties[receiver].get("encryption_key") if receiver else None

    def signing_keys(self, party: str, *, run_day: bool = False) -> list[str]:
        """A party's unrevoked signing keys, base64; with ``run_day`` only those valid that day."""
        declared, day = self.parties[party], self.document.get("day", "")
        first, last = declared.get("signing_key_from"), declared.get("signing_key_expires")
        keys = [(declared["signing_key"], first, last)]
        for former in declared.get("former_keys", []):
            if former["use"] == "signing":
                keys.append((former["key"], None, former["until"]))
        revoked = declared.get("revoked_keys", [])
        return [
            key
            for key, begin, end in keys
            if key not in revoked
            # In a plan without a day, only keys without dates are valid.
            and (not run_day or not (begin or end) or (begin or "0") <= day <= (end or "9999"))
        ]

    @cached_property
    def answers(self) -> dict[str, str]:
        """The kind that each kind answers; other kinds do not belong to the run."""
        if self.is_horizontal:
            return dict.fromkeys(ROUNDS, "")
        evaluated = self.federation.get("scoring", {}).get("evaluate", ())
        query = {"psi_query": "plan", "psi_answer": "psi_query"}
        query |= {"shares": "plan"} if self.has_shares else {}
        routes = {"route_request": "plan", "routes": "route_request"}
        if self.document["purpose"] == "train":
            query |= {"ranks": "plan", "split_request": "ranks", "split_values": "split_request"}
            is_routed = "routed" in (self.scoring_mode, *evaluated)
            return query | routes | {"route_request": "split_values"} if is_routed else query
        if self.scoring_mode == "local":
            return {}
        return query | (routes if self.scoring_mode == "routed" else {"values": "plan"})

    def domain(self, party: str, feature: str) -> tuple[int, int]:
        """The least and greatest integer of a feature's domain."""
        declared, common = self.parties[party]["features"][feature], self.federation["domain"]
        if own := declared.get("domain"):
            return own["lower"], own["upper"]
        lower, upper = common["lower"], common["upper"]
        count = len(declared.get("categories") or ()) if declared.get("type") == "ordinal" else 0
        return lower, min(upper, lower + count - 1) if count >= 2 else upper

    def columns(self, party: str) -> list[Column]:
        """The columns that a feature holder releases, in order."""
        columns = []
        bit = ((0, 1), (0, 1))
        for name, feature in self.parties[party]["features"].items():
            mechanism = feature["mechanism"]
            facts = (float(mechanism["epsilon"]), channels.mechanism_label(mechanism))
            ratios: Sequence[Fraction | None]
            if feature.get("type") == "nominal":
                counts, categories = channels.category_counts(mechanism), feature["categories"]
                ratios = [channels.category_ratio(counts)] * (len(categories) - 1)
                columns += [
                    Column(
                        _bit_name(name, category), name, name, *bit, counts, ratios, *facts, True
                    )
                    for category in categories
                ]
            else:
                lower, upper = self.domain(party, name)
                outputs, counts, ratios = _channel(json.dumps(mechanism), lower, upper)
                values = (range(lower, upper + 1), outputs)
                columns.append(Column(name, name, name, *values, counts, ratios, *facts, False))
            if isinstance(feature.get("missing"), Mapping) and "bit" in feature["missing"]:
                charge, epsilon = f"{name}=missing", float(feature["missing"]["bit"])
                facts = (epsilon, f"Randomised missing bit, epsilon {epsilon:g}")
                counts = channels.missing_bit_counts(epsilon)
                ratios = channels.worst_ratios(counts)
                columns.append(Column(charge, name, charge, *bit, counts, ratios, *facts, True))
        return columns

    def span(self, party: str, column: str, value: int) -> tuple[int, int]:
        """The least and greatest domain value that a released value represents."""
        feature = self.parties[party]["features"].get(column)
        if feature is None or feature.get("type") == "nominal":
            return value, value
        return channels.span(feature["mechanism"], *self.domain(party, column), value)

    def row_width(self, party: str) -> int:
        """Bytes per row of a feature holder; each column takes as many bits as its size needs."""
        return max(-(-sum(column.size.bit_length() for column in self.columns(party)) // 8), 1)

    def content_size(self, artifact: Artifact) -> int:
        """Bytes of an artifact's entries, including the canary."""
        kind, entries = artifact.kind, artifact.manifest["rows"] + 1
        if len(artifact.manifest["files"].keys() - {DOCUMENT}) > 1:
            raise NotCheckableError("sizes of an artifact's parts, which depend on hashes")
        if kind in ("psi_query", "psi_answer"):
            return int(_POINT_BYTES * entries)
        if kind == "shares":
            slots = 3 * (-(-1300 * entries // 3000) + 24)
            return int(_SHARE_BYTES * (len(self.feature_holders) - 1) * slots)
        if kind in RELEASES:
            return int((_TAG_BYTES + self.row_width(artifact.about)) * entries)
        raise NotCheckableError(f"the width of rows of {kind}")


def padded_size(content: int, rows: int, columns: int) -> int:
    """Bytes of a file after salting and padding."""
    size = _HEADER_BYTES + content
    if rows < MIN_ROWS:
        width = max(columns, 1)
        size = max(size, _HEADER_BYTES + 2048 * width + 32 * rows * width)
    return size + -size % STEP


def _bit_name(feature: str, category: str) -> str:
    def percent_encode(match: re.Match[str]) -> str:
        return "".join(f"%{byte:02X}" for byte in match[0].encode())

    return f"{feature}={_ESCAPED_IN_NAMES.sub(percent_encode, category)}"


@lru_cache(maxsize=64)
def _channel(
    mechanism: str, lower: int, upper: int
) -> tuple[list[int], channels.Counts, list[Fraction | None]]:
    outputs, counts = channels.output_counts(json.loads(mechanism), lower, upper)
    return outputs, counts, channels.worst_ratios(counts)
