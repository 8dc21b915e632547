"""A run's plan: who takes part, what is released by which mechanism, and which artifacts follow.

A plan has a federation file's entries, but for those at their default.

An encrypted file is salted and padded first: 32 bytes of salt, 8 bytes of length, the content, and
zeros up to a multiple of 4,096; below 1,000 rows at least up to 40 + (2048 + 32 rows) bytes per
column, so that a document's size tells nothing.
"""

import base64
import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import Any

from opboost_ops.verifier import channels
from opboost_ops.verifier.places import Artifact

#: Kinds that the label holder signs; all others are signed by the party in their place.
_BY_LABEL_HOLDER = {"plan", "psi_query", "split_request", "route_request", "decision"}

#: Kinds that everybody may read, and so are not encrypted.
_FOR_ALL = {"plan", "round_key", "decision"}

#: Kinds of horizontal learning, of which a run has one for each round.
ROUNDS = {"round_key", "masked", "decision"}

#: Kinds that the label holder addresses to the party in their place.
_ADDRESSED = {"psi_query", "split_request", "route_request"}

#: Of a model's names: characters that are written as in URLs.
_NOT_IN_NAMES = re.compile(r"[\s\",:\[\]{}/\\]")

#: Bytes that encryption adds: an X25519 key, a nonce, and an authentication tag.
OVERHEAD = 32 + 12 + 16

_STEP, _HEAD, _FEW = 4096, 40, 1000
_PART = 1 << 20
_POINT, _TAG, _SHARE = 32, 10, 16


@dataclass(frozen=True)
class Column:
    """A released column.

    Attributes:
        name: Its name in artifacts.
        feature: The feature.
        charge: The name under which its loss is charged.
        inputs, outputs: Values before and after randomisation.
        counts: The channel.
        size: How many values a sealed row reserves room for.
        is_bit: Whether it is a category's bit or a missing bit.
    """

    name: str
    feature: str
    charge: str
    inputs: Sequence[int]
    outputs: Sequence[int]
    counts: channels.Counts
    size: int
    is_bit: bool

    @property
    def channel_digest(self) -> str:
        """Sha256 of inputs, outputs and counts, as agreements have it."""
        facts = (list(self.inputs), list(self.outputs), tuple(map(tuple, self.counts)))
        return hashlib.sha256(repr(facts).encode()).hexdigest()


@dataclass(frozen=True)
class Charge:
    """A loss curve that the plan's mechanisms have.

    Attributes:
        ratios: Worst ratios for t = 1, 2, ...; None where infinite.
        epsilon: As declared.
        label: What the mechanism is called in manifests.
    """

    ratios: Sequence[Fraction | None]
    epsilon: float
    label: str


@dataclass(frozen=True)
class Plan:
    """A run's plan.

    Attributes:
        artifact: Where it lies.
        document: Its document.
    """

    artifact: Artifact
    document: Mapping[str, Any]

    @classmethod
    def read(cls, artifact: Artifact) -> "Plan":
        """The plan in an artifact.

        Raises:
            ValueError: It is none.
        """
        document = json.loads(artifact.content("document.json"))
        plan = cls(artifact, document)
        if not plan.label_holder or document["purpose"] not in ("train", "score"):
            raise ValueError("no plan")
        return plan

    @property
    def federation(self) -> Mapping[str, Any]:
        """The federation file that it carries."""
        federation: Mapping[str, Any] = self.document["federation"]
        return federation

    @property
    def parties(self) -> Mapping[str, Any]:
        """Its parties by name."""
        parties: Mapping[str, Any] = self.federation["parties"]
        return parties

    @property
    def is_horizontal(self) -> bool:
        """True if its parties have the same columns of other people."""
        return bool(self.federation.get("learning", "vertical") == "horizontal")

    @cached_property
    def label_holder(self) -> str:
        """The party that signs the plan."""
        if self.is_horizontal:
            return self.artifact.about
        return next(n for n, p in self.parties.items() if p["role"] == "label_holder")

    @cached_property
    def feature_holders(self) -> list[str]:
        """Feature holders in the plan's order."""
        return [n for n, p in self.parties.items() if p["role"] == "feature_holder"]

    @property
    def keeps_all(self) -> bool:
        """True if rows of people whom a feature holder lacks are kept."""
        return bool(self.federation.get("alignment", {}).get("overlap", "common") == "left")

    @property
    def has_shares(self) -> bool:
        """True if a row opens only where all of several feature holders have the person."""
        return not self.keeps_all and len(self.feature_holders) > 1

    @property
    def purpose(self) -> str:
        """``train`` or ``score``."""
        return str(self.document["purpose"])

    def signer(self, kind: str, about: str) -> str:
        """The one party that may sign a kind at a place."""
        return self.label_holder if kind in _BY_LABEL_HOLDER else about

    def receiver(self, kind: str, about: str) -> str | None:
        """The party that a kind is addressed to; None for all."""
        if kind in _FOR_ALL:
            return None
        return about if kind in _ADDRESSED else self.label_holder

    def signing_keys(self, party: str, *, run_day: bool = False) -> list[str]:
        """The signing keys of a party that are not revoked, base64.

        Args:
            party: The party.
            run_day: Only those that are good on the plan's day.
        """
        declared, day = self.parties[party], self.document.get("day") or ""
        first, last = declared.get("signing_key_from"), declared.get("signing_key_expires")
        keys = [(declared["signing_key"], first or "", last or "9999")]
        for former in declared.get("former_keys", []):
            if former["use"] == "signing":
                keys.append((former["key"], "", former["until"]))
        revoked = declared.get("revoked_keys", [])
        return [
            key
            for key, begin, end in keys
            if key not in revoked and (not run_day or not day or begin <= day <= end)
        ]

    def encrypted_to(self, kind: str, about: str) -> str | None:
        """The short name of the key to which a kind is encrypted; None if it lies open."""
        receiver = self.receiver(kind, about)
        key = None if receiver is None else self.parties[receiver].get("encryption_key")
        return hashlib.sha256(base64.b64decode(key)).hexdigest()[:16] if key else None

    @cached_property
    def answers(self) -> dict[str, str]:
        """By kind, the kind that it answers; other kinds are no part of the run."""
        scoring = self.federation.get("scoring", {})
        mode = scoring.get("mode", "desensitised")
        routed = "routed" in (mode, *scoring.get("evaluate", ()))
        query = {"psi_query": "plan", "psi_answer": "psi_query"}
        shares = {"shares": "plan"} if self.has_shares else {}
        if self.purpose == "train":
            splits = {
                "ranks": "plan",
                "split_request": "ranks",
                "split_values": "split_request",
            }
            routes = {"route_request": "split_values", "routes": "route_request"}
            return {**query, **shares, **splits, **(routes if routed else {})}
        if mode == "local":
            return {}
        if mode == "routed":
            return {**query, **shares, "route_request": "plan", "routes": "route_request"}
        return {**query, **shares, "values": "plan"}

    def domain(self, party: str, feature: str) -> tuple[int, int]:
        """The least and greatest integer on which a feature holder's feature is released."""
        declared, common = self.parties[party]["features"][feature], self.federation["domain"]
        if own := declared.get("domain"):
            return own["lower"], own["upper"]
        lower, upper = common["lower"], common["upper"]
        count = len(declared.get("categories") or ()) if declared.get("type") == "ordinal" else 0
        return lower, min(upper, lower + count - 1) if count >= 2 else upper

    def columns(self, party: str) -> list[Column]:
        """The columns that a feature holder releases, in their order.

        Raises:
            UnknownMechanismError: A mechanism is unknown.
        """
        columns = []

        def add_bit(name: str, feature: str, charge: str, counts: channels.Counts) -> None:
            columns.append(Column(name, feature, charge, (0, 1), (0, 1), counts, 2, True))

        for name, feature in self.parties[party]["features"].items():
            if feature.get("type") == "nominal":
                for category in feature["categories"]:
                    counts = channels.category_counts(feature["mechanism"])
                    add_bit(_bit_name(name, category), name, name, counts)
            else:
                lower, upper = self.domain(party, name)
                outputs, counts = _channel(json.dumps(feature["mechanism"]), lower, upper)
                size = max(upper - lower + 1, max(outputs) - min(outputs) + 1)
                inputs = range(lower, upper + 1)
                columns.append(Column(name, name, name, inputs, outputs, counts, size, False))
            if (bit := _missing_bit(feature)) is not None:
                missing = f"{name}=missing"
                add_bit(missing, name, missing, channels.missing_bit_counts(bit))
        return columns

    def charges(self, party: str) -> dict[str, Charge]:
        """The losses of a feature holder's columns, computed from what the plan declares.

        Raises:
            UnknownMechanismError: A mechanism is unknown.
        """
        charges = {}
        for column in self.columns(party):
            feature = self.parties[party]["features"][column.feature]
            mechanism, bit = feature["mechanism"], _missing_bit(feature)
            if column.charge != column.feature:
                ratios, epsilon = channels.worst_ratios(column.counts), bit or 0.0
                label = f"Randomised missing bit, epsilon {bit:g}"
            else:
                epsilon, label = float(mechanism["epsilon"]), channels.label_of(mechanism)
                if column.is_bit:
                    ratio = channels.category_ratio(column.counts)
                    ratios = [ratio] * (len(feature["categories"]) - 1)
                else:
                    domain = self.domain(party, column.feature)
                    ratios = list(_ratios(json.dumps(mechanism), *domain))
            charges[column.charge] = Charge(ratios, epsilon, label)
        return charges

    def span(self, party: str, column: str, value: int) -> tuple[int, int]:
        """The least and greatest domain value that a released value stands for."""
        feature = self.parties[party]["features"].get(column)
        if feature is None or feature.get("type") == "nominal":
            return value, value
        return channels.span(feature["mechanism"], *self.domain(party, column), value)


def canonical(value: Any) -> bytes:
    """JSON in the one way in which digests of agreements and checkpoints are taken."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True).encode()


def _missing_bit(feature: Mapping[str, Any]) -> float | None:
    """Epsilon of the bit that says whether a value is missing; None without one."""
    missing = feature.get("missing")
    bit = missing.get("bit") if isinstance(missing, Mapping) else None
    return None if bit is None else float(bit)


def _bit_name(feature: str, category: str) -> str:
    def written(match: re.Match[str]) -> str:
        return "".join(f"%{byte:02X}" for byte in match[0].encode())

    return f"{feature}={_NOT_IN_NAMES.sub(written, category)}"


@lru_cache(maxsize=64)
def _channel(mechanism: str, lower: int, upper: int) -> tuple[list[int], channels.Counts]:
    return channels.counts_of(json.loads(mechanism), lower, upper)


@lru_cache(maxsize=64)
def _ratios(mechanism: str, lower: int, upper: int) -> tuple[Fraction | None, ...]:
    return tuple(channels.worst_ratios(_channel(mechanism, lower, upper)[1]))


class NotKnownError(Exception):
    """A size does not follow from public facts."""


def is_expected(plan: Plan, artifact: Artifact, name: str) -> bool:
    """True if a file has the size before encryption that its manifest has to state.

    Raises:
        NotKnownError: It follows from something else.
    """
    manifest = artifact.manifest
    rows, columns, size = (
        manifest["rows"],
        len(manifest["columns"]),
        manifest["files"][name]["size"],
    )
    encrypted = manifest["encrypted_to"] is not None
    if name == "document.json":
        if not encrypted:
            raise NotKnownError("sizes of documents that lie open")
        if rows >= _FEW:
            return bool(size > 0 and size % _STEP == 0)
        # A document of few rows is smaller than the least size.
        return bool(size == padded(0, rows, columns))
    if sum(file.startswith("entries") for file in manifest["files"]) > 1:
        raise NotKnownError("sizes of single parts, which follow from hashes")
    content = _content(plan, artifact)
    return bool(size == (padded(content, rows, columns) if encrypted else content))


def row_width(plan: Plan, party: str) -> int:
    """Bytes of a feature holder's row: each column in as many bits as its declared size needs."""
    bits = sum(column.size.bit_length() for column in plan.columns(party))
    return max(-(-bits // 8), 1)


def part_count(entries: int) -> int:
    """The number of files that a list of entries is cut into, a power of two."""
    return 1 << min((max(entries - 1, 0) // _PART).bit_length(), 12)


def _content(plan: Plan, artifact: Artifact) -> int:
    rows, kind = int(artifact.manifest["rows"]), artifact.kind
    # The canary is one more.
    if kind in ("psi_query", "psi_answer"):
        return _POINT * (rows + 1)
    if kind == "shares":
        slots = 3 * (-(-1300 * (rows + 1) // 3000) + 24)
        return _SHARE * (len(plan.feature_holders) - 1) * slots
    if kind in ("ranks", "values"):
        return (_TAG + row_width(plan, artifact.about)) * (rows + 1)
    raise NotKnownError(f"the width of rows of {kind}")


def padded(content: int, rows: int, columns: int) -> int:
    """Bytes of a file once it is salted and padded."""
    size = _HEAD + content
    if rows < _FEW:
        width = max(columns, 1)
        size = max(size, _HEAD + 2048 * width + 32 * rows * width)
    return size + -size % _STEP
