"""Whole federations in memory: parties as objects, a dict as the store.

Signatures and encryption are real; tables are small and made up. Hostile parties are in
`federation_attacks`.
"""

import base64
import hashlib
import json
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date, timedelta
from functools import cache
from typing import Any

import numpy as np
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

from opboost_ops.config.agreement import PROTOCOL
from opboost_ops.config.columns import columns_of
from opboost_ops.config.federation import Federation, Purpose, ScoringMode
from opboost_ops.config.loading import parse_federation
from opboost_ops.exchange.acceptance import Acceptance, Keys, Memory
from opboost_ops.exchange.artifact import Artifact, Draft
from opboost_ops.exchange.encryption import Envelope, PrivateKey, new_encryption_key
from opboost_ops.exchange.manifest import (
    MANIFEST,
    SIGNATURE,
    Kind,
    parse_manifest,
    receiver_of,
    sender_of,
)
from opboost_ops.exchange.plan import Plan
from opboost_ops.exchange.sealed.curve import hash_to_curve, multiply
from opboost_ops.exchange.sealed.oprf import domain_tag
from opboost_ops.exchange.sealed.sealing import ROW_TAG
from opboost_ops.exchange.sealed.zero_shares import slots_for
from opboost_ops.exchange.signing import Signer, new_signing_key
from opboost_ops.extras.datasets.workspace import federation_terms
from opboost_ops.privacy.loss import column_losses

Files = dict[str, bytes]
Place = tuple[Kind, str]

NAME, RUN, TODAY = "toy", "0" * 15 + "1", date(2030, 1, 1)
LABEL = "lender"
Before = Mapping[Kind, tuple[Kind, ...]]
_BEGIN: Before = {
    "plan": (),
    "psi_query": ("plan",),
    "psi_answer": ("psi_query",),
    "shares": ("plan",),
}
_TRAIN: Before = {
    **_BEGIN,
    "ranks": ("plan",),
    "split_request": ("ranks",),
    "split_values": ("split_request",),
}
_ROUTES: Before = {"routes": ("route_request",)}
#: By purpose and mode of scoring: what must have been accepted before, at the same feature holder.
BEFORE: Mapping[tuple[str, str], Before] = {
    ("train", "desensitised"): _TRAIN,
    ("train", "routed"): {**_TRAIN, "route_request": ("split_values",), **_ROUTES},
    ("score", "desensitised"): {**_BEGIN, "values": ("plan",)},
    ("score", "routed"): {**_BEGIN, "route_request": ("plan",), **_ROUTES},
    ("score", "local"): {"plan": ()},
}
#: People whom the label holder asks about, and people in a feature holder's table.
ASKED, PEOPLE = 9, 15


@dataclass
class Member:
    """An organisation with its keys; strangers have some, too."""

    name: str
    signer: Signer = field(init=False)
    secret: bytes = field(init=False)
    private: PrivateKey = field(init=False)

    def __post_init__(self) -> None:
        seed = hashlib.sha256(self.name.encode()).digest()
        signing = base64.b64decode(new_signing_key(seed)[0])
        encryption = base64.b64decode(new_encryption_key(seed)[0])
        self.signer = Signer(Ed25519PrivateKey.from_private_bytes(signing))
        self.private = PrivateKey(X25519PrivateKey.from_private_bytes(encryption))
        self.secret = hashlib.sha256(seed).digest()


@dataclass
class Simulation:
    """One run of a federation.

    Attributes:
        holders: How many feature holders.
        encrypted: Whether the parties declare encryption keys.
        expired: A party whose signing key expired yesterday.
        revoked: A party that had the stranger's key once, and has revoked it.
        opened: How many days from today the plan says that it was opened; it says none if None.
        run: Its id.
        purpose: What it is for.
        mode: In which new rows are scored.
    """

    holders: int = 2
    encrypted: bool = True
    expired: str = ""
    revoked: str = ""
    opened: int | None = None
    run: str = RUN
    name: str = NAME
    purpose: Purpose = "train"
    mode: ScoringMode = "desensitised"

    def __post_init__(self) -> None:
        self.members = {name: Member(name) for name in (LABEL, *self.feature_holders, "stranger")}
        self.federation = self._federation()
        self.store: dict[Place, Files] = {}
        self.views = {name: self.view(name) for name in self.federation.parties}

    @property
    def before(self) -> Before:
        """What must have been accepted before each kind of this run."""
        return BEFORE[(self.purpose, self.mode)]

    @property
    def feature_holders(self) -> list[str]:
        return [f"b{i}" for i in range(self.holders)]

    def view(
        self, party: str, memory: Memory | None = None, earlier: frozenset[str] = frozenset()
    ) -> Acceptance:
        """A party as a new process sees it."""
        member = self.members[party]
        key = self.members[LABEL].signer.public
        made = Acceptance(party, self.name, self.run, LABEL, key, memory, lambda: earlier)
        made.keys = Keys(member.secret, member.private)
        return made

    def places(self) -> list[Place]:
        """All places of the run, in an order in which every input is there."""
        kinds = [k for k in self.before if k != "plan" and (k != "shares" or self.holders > 1)]
        return [("plan", LABEL), *((kind, b) for kind in kinds for b in self.feature_holders)]

    def readers(self, kind: Kind, about: str) -> tuple[str, ...]:
        """Who has a use for what lies at a place, its sender included."""
        receiver = receiver_of(kind, about, LABEL)
        if receiver is None:
            return tuple(self.federation.parties)
        return (sender_of(kind, about, LABEL), receiver)

    def draft(self, kind: Kind, about: str, **changes: Any) -> Draft:
        """What an honest party publishes, but for the changes."""
        day = None if self.opened is None else TODAY + timedelta(days=self.opened)
        splits = {"kind": kind, "about": about, "rows": 1, "columns": ("x",)}
        rows = {"entries": sealed_rows(PEOPLE + 1), "document": laid_out(), "rows": PEOPLE}
        asks = (self.purpose, self.mode) != ("score", "local")
        width = 16 * (self.holders - 1)
        facts: dict[Kind, dict[str, Any]] = {
            "plan": {
                "document": Plan(
                    self.federation, self.purpose, "f" * 16, "a" * 64, PROTOCOL,
                    epoch="2030-01" if asks else None, day=day,
                ).document(),
                "rows": len(self.federation.parties),
            },
            "psi_query": {"entries": points(ASKED + 1), "rows": ASKED},
            "psi_answer": {"entries": points(ASKED + 1), "rows": ASKED},
            "shares": {
                "entries": np.zeros((slots_for(PEOPLE + 1), width), dtype=np.uint8),
                "document": {**laid_out(width), "keys": [PEOPLE + 1], "numbers": [0]},
                "rows": PEOPLE,
            },
            "ranks": {**rows, "columns": ("x", "y")},
            "values": {**rows, "columns": ("x", "y")},
            "route_request": {**splits, "document": {"thresholds": {"x": [2.5]}}},
            "routes": {**rows, "columns": ("x",)},
            "split_request": {**splits, "document": {"splits": {"x": [1]}, "thresholds": {}}},
            "split_values": {**splits, "document": {"splits": {"x": {"1": 2.5}}, "ranks": {}}},
        }  # fmt: skip
        answered = self.before.get(kind, ("plan",))[:1]
        answers = None
        if answered:
            before: Place = ("plan", LABEL) if answered == ("plan",) else (answered[0], about)
            answers = digest(self.store[before]) if before in self.store else "0" * 64
        losses = {}
        if kind in ("ranks", "values") and about in self.feature_holders:
            losses = column_losses(columns_of(self.federation, about))
        return Draft(**{"kind": kind, "about": about, "discloses": "", "answers": answers,
                        "losses": losses, **facts[kind], **changes})  # fmt: skip

    def seal(
        self,
        kind: Kind,
        about: str,
        *,
        by: str = "",
        named: str = "",
        run: str = "",
        federation: str = "",
        to: str | None = "receiver",
        **changes: Any,
    ) -> Files:
        """The bytes of an artifact.

        Args:
            kind: Its kind.
            about: The party it is about.
            by: Who signs; the honest sender when absent.
            named: Whom the manifest names as its party; the signer when absent.
            run: Its run.
            federation: Its federation.
            to: To whom it is encrypted; the honest receiver's declared key, or nobody (None).
            **changes: Other fields of its draft.
        """
        signer = self.members[by or sender_of(kind, about, LABEL)]
        if to == "receiver":
            to = receiver_of(kind, about, LABEL)
            keyed = to is not None and to in self.federation.parties
            if keyed and self.federation.parties[str(to)].encryption_key is None:
                to = None
        envelope = Envelope(signer.secret, self.members[to].private.public) if to else None
        _, files = self.draft(kind, about, **changes).seal(
            signer.signer,
            federation or self.name,
            run or self.run,
            named or signer.name,
            False,
            envelope,
        )
        return files

    def take(self, party: str, kind: Kind, about: str, files: Files | None = None) -> Artifact:
        """A party reads a place; ``files`` are what is found there instead of the honest ones."""
        found = self.store[(kind, about)] if files is None else files
        return self.views[party].accept(kind, about, found, TODAY)

    def publish(self, kind: Kind, about: str) -> None:
        """The honest sender publishes, and remembers it."""
        sender = sender_of(kind, about, LABEL)
        draft = self.draft(kind, about)
        self.store[(kind, about)] = self.seal(kind, about)
        self.views[sender].published(draft, digest(self.store[(kind, about)]))

    def until(self, kind: Kind | None, about: str = "") -> "Simulation":
        """Everything that comes before a place; the whole run without one."""
        for place in self.places():
            if place == (kind, about):
                return self
            self.publish(*place)
            for reader in self.readers(*place):
                if place[0] == "plan" or reader != sender_of(*place, LABEL):
                    self.take(reader, *place)
        return self

    def finish(self) -> None:
        """The rest of the run, honestly; what is there already is read again."""
        for place in self.places():
            if place not in self.store:
                self.publish(*place)
            for reader in self.readers(*place):
                self.take(reader, *place)

    def _federation(self) -> Federation:
        parties: dict[str, Any] = {}
        for name in (LABEL, *self.feature_holders):
            member = self.members[name]
            parties[name] = spec = {"signing_key": member.signer.public}
            # Several feature holders share keys with one another by theirs.
            if self.encrypted or (name != LABEL and self.holders > 1):
                spec["encryption_key"] = member.private.public
            if name == self.expired:
                spec["signing_key_expires"] = str(TODAY - timedelta(days=1))
            if name == self.revoked:
                spec["revoked_keys"] = [self.members["stranger"].signer.public]
            if name == LABEL:
                spec |= {"role": "label_holder", "label": {"column": "y", "task": "binary"}}  # type: ignore[dict-item]
            else:
                feature = {"bounds": [0, 1], "mechanism": {"name": "global_map", "epsilon": 1.0}}
                spec |= {"role": "feature_holder", "features": {  # type: ignore[dict-item]
                    column: {**feature, "uuid": str(uuid.uuid5(uuid.NAMESPACE_DNS, name + column))}
                    for column in ("x", "y")
                }}  # fmt: skip
        data = {
            "version": 1,
            "name": self.name,
            "uuid": str(uuid.uuid5(uuid.NAMESPACE_DNS, self.name)),
            "terms": federation_terms("Test"),
            "id": {"column": "id", "type": "string"},
            "domain": {"lower": 1, "upper": 10},
            "scoring": {"mode": self.mode},
            "parties": parties,
        }
        return parse_federation(data, "simulated")


def laid_out(width: int = 1) -> dict[str, Any]:
    """How sealed rows are laid out."""
    return {"nonce": "5" * 64, "width": width}


def sealed_rows(count: int, width: int = 1) -> np.ndarray:
    """Sealed rows in the order of their tags."""
    found = np.zeros((count, ROW_TAG + width), dtype=np.uint8)
    found[:, 0] = np.arange(count)
    return found


@cache
def points(count: int) -> np.ndarray:
    """Points in the order of their bytes."""
    hashed = hash_to_curve([b"%d" % i for i in range(count)], domain_tag(NAME))
    raw = b"".join(sorted(multiply(bytes(range(32)), hashed)))
    return np.frombuffer(raw, dtype=np.uint8).reshape(-1, 32)


def digest(files: Files) -> str:
    """An artifact's digest."""
    return parse_manifest(files[MANIFEST], "simulated").digest


def flipped(files: Files, name: str, at: int = -1, bits: int = 1) -> Files:
    """With one bit of one file turned, or several of one byte."""
    raw = bytearray(files[name])
    raw[at] ^= bits
    return {**files, name: bytes(raw)}


def resigned(files: Files, signer: Signer, /, **changes: Any) -> Files:
    """With another manifest, really signed."""
    data = {**json.loads(files[MANIFEST]), **changes}
    raw = json.dumps(data, sort_keys=True, separators=(",", ":")).encode()
    return {**files, MANIFEST: raw, SIGNATURE: signer.sign(raw)}
