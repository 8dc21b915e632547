"""A run's plan: who takes part, what is released by which mechanism, and which artifacts follow.

A plan has a federation file's entries, but for those at their default; training is whole.

An encrypted file is salted and padded first: 32 bytes of salt, 8 bytes of length, the content, and
zeros up to a multiple of 4,096; below 1,000 rows at least up to 40 + (2048 + 32 rows) bytes per
column, so that a document's size tells nothing.
"""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import Any, NamedTuple

from opboost_ops.verifier import channels
from opboost_ops.verifier.outcomes import NotCheckableError
from opboost_ops.verifier.places import DOCUMENT, Artifact, Artifacts, sha256

#: Kinds that the label holder signs; all others are signed by the party in their place.
_BY_LABEL_HOLDER = {"plan", "psi_query", "split_request", "route_request", "decision"}
_FOR_ALL = {"plan", "round_key", "decision"}  # everybody may read them: they are not encrypted
_ADDRESSED = {"psi_query", "split_request", "route_request"}  # to the party in their place
ROUNDS = {"round_key", "masked", "decision"}  # of horizontal learning: one for each round
RELEASES = {"ranks", "values"}  # they release randomised cells, and so state what they cost

#: Of a model's names: characters that are written as in URLs.
_NOT_IN_NAMES = re.compile(r"[\s\",:\[\]{}/\\]")

#: Bytes that encryption adds: an X25519 key, a nonce, and an authentication tag.
OVERHEAD = 32 + 12 + 16

#: Encrypted files are as long as a multiple of this; below so many rows they have a least size.
STEP, FEW = 4096, 1000

_HEAD, _POINT, _TAG, _SHARE = 40, 32, 10, 16


class Column(NamedTuple):
    """A released column: a feature's values, a category's bit, or the bit of missing values."""

    name: str
    feature: str
    charge: str  # the name under which its loss is charged
    inputs: Sequence[int]
    outputs: Sequence[int]
    counts: channels.Counts
    ratios: Sequence[Fraction | None]  # the worst ones of the charge for t = 1, 2, ...; or infinite
    epsilon: float
    label: str  # the mechanism in manifests
    is_bit: bool

    @property
    def size(self) -> int:
        """For how many values a sealed row reserves room."""
        return max(len(self.inputs), max(self.outputs) - min(self.outputs) + 1)

    @property
    def channel_digest(self) -> str:
        """Sha256 of inputs, outputs and counts, as agreements have it."""
        facts = (list(self.inputs), list(self.outputs), tuple(map(tuple, self.counts)))
        return sha256(repr(facts).encode())


@dataclass(frozen=True)
class Plan:
    """A run's plan."""

    artifact: Artifact
    document: Mapping[str, Any]
    artifacts: Artifacts = field(default_factory=dict)  # all of its run

    @classmethod
    def read(cls, artifacts: Artifacts) -> "Plan":
        """The first plan of a run; an error of `DAMAGED` if there is none."""
        artifact, *_ = [a for a in artifacts.values() if a.kind == "plan"]
        plan = cls(artifact, json.loads(artifact.stored[DOCUMENT].read_bytes()), artifacts)
        is_known = plan.document["purpose"] in ("train", "score")
        if not is_known or plan.label_holder not in plan.parties:
            raise ValueError("no plan")
        return plan

    @property
    def run(self) -> str:
        """Its name, ``<federation>/<run>``."""
        return f"{self.artifact.federation}/{self.artifact.run}"

    @property
    def federation(self) -> dict[str, Any]:
        """The federation file that it carries."""
        return dict(self.document["federation"])

    @property
    def parties(self) -> dict[str, Any]:
        """Its parties by name."""
        return dict(self.federation["parties"])

    @property
    def training(self) -> dict[str, Any]:
        """How models are trained."""
        return dict(self.federation["training"])

    @property
    def is_horizontal(self) -> bool:
        """True if its parties have the same columns of other people."""
        return bool(self.federation.get("learning", "vertical") == "horizontal")

    @cached_property
    def label_holder(self) -> str:
        """The party that signs the plan."""
        if self.is_horizontal:
            return self.artifact.about
        label_holders = [n for n, p in self.parties.items() if p["role"] == "label_holder"]
        return str(label_holders[0])

    @cached_property
    def feature_holders(self) -> list[str]:
        """Feature holders in the plan's order."""
        return [n for n, p in self.parties.items() if p["role"] == "feature_holder"]

    @property
    def has_shares(self) -> bool:
        """True if a row opens only where all of several feature holders have the person."""
        keeps_all = self.federation.get("alignment", {}).get("overlap", "common") == "left"
        return not keeps_all and len(self.feature_holders) > 1

    @property
    def has_domain_ranks(self) -> bool:
        """True if ranks are the domain's own codes, as for private training."""
        return bool(self.training["trainer"] == "dpboost")

    @property
    def scoring_mode(self) -> str:
        """How new rows are scored: desensitised, routed or local."""
        return str(self.federation.get("scoring", {}).get("mode", "desensitised"))

    def signer(self, kind: str, about: str) -> str:
        """The one party that may sign a kind at a place."""
        return self.label_holder if kind in _BY_LABEL_HOLDER else about

    def receiver(self, artifact: Artifact) -> str | None:
        """The party that an artifact is addressed to; None for all."""
        if artifact.kind in _FOR_ALL:
            return None
        return artifact.about if artifact.kind in _ADDRESSED else self.label_holder

    def receiver_key(self, artifact: Artifact) -> str | None:
        """The key to which an artifact is encrypted, base64; None if it lies open."""
        receiver = self.receiver(artifact)
        return self.parties[receiver].get("encryption_key") if receiver else None

    def signing_keys(self, party: str, *, run_day: bool = False) -> list[str]:
        """The signing keys of a party that are not revoked, base64; or those good on the day."""
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
            # A plan without a day has no keys with dates.
            and (not run_day or not (begin or end) or (begin or "0") <= day <= (end or "9999"))
        ]

    @cached_property
    def answers(self) -> dict[str, str]:
        """By kind, the kind that it answers; other kinds are no part of the run."""
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
        """The least and greatest integer on which a feature holder's feature is released."""
        declared, common = self.parties[party]["features"][feature], self.federation["domain"]
        if own := declared.get("domain"):
            return own["lower"], own["upper"]
        lower, upper = common["lower"], common["upper"]
        count = len(declared.get("categories") or ()) if declared.get("type") == "ordinal" else 0
        return lower, min(upper, lower + count - 1) if count >= 2 else upper

    def columns(self, party: str) -> list[Column]:
        """The columns that a feature holder releases, in their order."""
        columns = []
        bit = ((0, 1), (0, 1))
        for name, feature in self.parties[party]["features"].items():
            mechanism = feature["mechanism"]
            facts = (float(mechanism["epsilon"]), channels.label_of(mechanism))
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
        """The least and greatest domain value that a released value stands for."""
        feature = self.parties[party]["features"].get(column)
        if feature is None or feature.get("type") == "nominal":
            return value, value
        return channels.span(feature["mechanism"], *self.domain(party, column), value)

    def row_width(self, party: str) -> int:
        """Bytes of a feature holder's row: each column in as many bits as its size needs."""
        return max(-(-sum(column.size.bit_length() for column in self.columns(party)) // 8), 1)

    def content_size(self, artifact: Artifact) -> int:
        """Bytes of all entries of an artifact, with the canary's."""
        kind, entries = artifact.kind, artifact.manifest["rows"] + 1
        if len(artifact.manifest["files"].keys() - {DOCUMENT}) > 1:
            raise NotCheckableError("sizes of single parts, which follow from hashes")
        if kind in ("psi_query", "psi_answer"):
            return int(_POINT * entries)
        if kind == "shares":
            slots = 3 * (-(-1300 * entries // 3000) + 24)
            return int(_SHARE * (len(self.feature_holders) - 1) * slots)
        if kind in RELEASES:
            return int((_TAG + self.row_width(artifact.about)) * entries)
        raise NotCheckableError(f"the width of rows of {kind}")


def _bit_name(feature: str, category: str) -> str:
    def written(match: re.Match[str]) -> str:
        return "".join(f"%{byte:02X}" for byte in match[0].encode())

    return f"{feature}={_NOT_IN_NAMES.sub(written, category)}"


@lru_cache(maxsize=64)
def _channel(
    mechanism: str, lower: int, upper: int
) -> tuple[list[int], channels.Counts, list[Fraction | None]]:
    outputs, counts = channels.counts_of(json.loads(mechanism), lower, upper)
    return outputs, counts, channels.worst_ratios(counts)


def padded(content: int, rows: int, columns: int) -> int:
    """Bytes of a file once it is salted and padded."""
    size = _HEAD + content
    if rows < FEW:
        width = max(columns, 1)
        size = max(size, _HEAD + 2048 * width + 32 * rows * width)
    return size + -size % STEP
