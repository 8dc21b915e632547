"""Rounds: each party computes a vector from its own rows, and one party decides from the sum.

Decisions are encrypted with a key that the active party derives for the run. The first decision
carries this key, wrapped for each other party under the secret that the two parties' keys for the
run share. Once these keys are destroyed, nobody can unwrap it again.
"""

import base64
import hashlib
import hmac
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, Protocol, TypeVar

import numpy as np
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from opboost_ops.config.schema import Record
from opboost_ops.errors import ContractError
from opboost_ops.exchange.rejection import Rejected
from opboost_ops.exchange.rounds.masks import Masks
from opboost_ops.exchange.signing import Signer
from opboost_ops.privacy.ledger.checkpoints import Standing

#: Name of the logger for the progress of rounds, and the parties that one waits for.
LOGGER = "opboost_ops.rounds"

Phase = Literal["facts", "lookup", "trees"]

Decision = TypeVar("Decision", bound=Record)

_NONCE = 12


@dataclass(frozen=True)
class Round:
    """The position of a round in the session.

    Attributes:
        phase: The purpose of its sums.
        tree: Number of the boosting round, from 0.
        level: Number within the phase or tree, from 0.
    """

    phase: Phase
    tree: int = 0
    level: int = 0

    @property
    def name(self) -> str:
        """A name that is valid in the store and sorts in the order of the rounds."""
        return f"{self.phase}-{self.tree:05d}-{self.level:02d}"

    def __str__(self) -> str:
        if self.phase == "trees":
            return f"tree {self.tree + 1}, level {self.level + 1}"
        return "facts" if self.phase == "facts" else f"quantile lookup, round {self.level + 1}"

    def unfit(self) -> ContractError:
        """Return the error for a decision that does not fit the round."""
        return ContractError(
            f"{self}: the decision does not fit the round.",
            "Bring all parties to the same release of this software, and trigger a new run.",
        )


class Rounds(Protocol):
    """Exchanges vectors for decisions."""

    @property
    def parties(self) -> int:
        """Number of parties whose vectors are added."""
        ...

    @property
    def derives(self) -> bool:
        """True if the sums of a node may be derived from those of its parent and sibling."""
        ...

    def total(self, name: Round) -> np.ndarray:
        """Return the sum of a round of this tree that was decided in an earlier try; int64.

        Args:
            name: The round.
        """
        ...

    def step(
        self,
        name: Round,
        size: int,
        vector: Callable[[], np.ndarray],
        decide: Callable[[np.ndarray], Decision],
        form: type[Decision],
        bounds: Sequence[int] = (),
    ) -> Decision:
        """Run one round; if it was decided in an earlier try, neither function is called.

        Args:
            name: The round.
            size: Number of integers of the vector.
            vector: Returns this party's vector, int64, shape (size,).
            decide: Returns the decision for the sum; called at one party only.
            form: Type of the decision.
            bounds: Maximum absolute sums, below 2^63; integer i has bound i modulo their number.
                They are public, because a vector's length depends on them. Default: 2^63 - 1.
        """
        ...


class Alone:
    """Rounds of a single party that has all rows."""

    parties = 1
    derives = True

    def total(self, name: Round) -> np.ndarray:
        """See `Rounds.total`; there is no earlier try."""
        raise NotImplementedError(str(name))

    def step(
        self,
        name: Round,
        size: int,
        vector: Callable[[], np.ndarray],
        decide: Callable[[np.ndarray], Decision],
        form: type[Decision],  # noqa: ARG002
        bounds: Sequence[int] = (),  # noqa: ARG002
    ) -> Decision:
        """See `Rounds.step`."""
        return decide(self._sum(name, size, vector))

    def _sum(
        self,
        name: Round,  # noqa: ARG002
        size: int,  # noqa: ARG002
        vector: Callable[[], np.ndarray],
    ) -> np.ndarray:
        return vector()


@dataclass(frozen=True)
class Identity:
    """The party that sends, with its keys.

    Attributes:
        party: Name of the party.
        signer: Its signing key.
        secret: Its secret, 32 bytes, for encryption.
        seed: Seed of its keys for this run; None if the session has ended and its decisions are
            only read again.
        experiment: Whether the run is an experiment without guarantees.
        noise: Draws noise for a number of sums of a phase, int64; None if sums are exact.
        decisions: The key that decrypts the decisions of a session that has ended.
        standing: Checkpoint of the party's state, published with its key for the run.
    """

    party: str
    signer: Signer
    secret: bytes
    seed: bytes | None
    experiment: bool = False
    noise: Callable[[Phase, int], np.ndarray] | None = None
    decisions: bytes | None = None
    standing: Standing | None = None


@dataclass
class Traffic:
    """Counts of the messages that a party exchanged.

    Attributes:
        sums: Number of sums that the active party has learnt, by phase.
        sent: Number of messages sent.
        bytes: Bytes sent.
        waited: Seconds of waiting for other parties.
        digest: Digest of all messages sent, in order.
    """

    sums: dict[str, int] = field(default_factory=dict)
    sent: int = 0
    bytes: int = 0
    waited: float = 0.0
    digest: str = ""


class DecisionKey:
    """The key that encrypts a session's decisions.

    Args:
        raw: 32 bytes.
    """

    def __init__(self, raw: bytes) -> None:
        self.raw = raw

    @classmethod
    def of_run(cls, seed: bytes) -> "DecisionKey":
        """Derive the active party's key from the seed of its keys for the run."""
        return cls(HKDF(SHA256(), 32, None, b"opboost:decisions").derive(seed))

    @classmethod
    def unwrapped(cls, masks: Masks, active: str, wrapped: str, what: str) -> "DecisionKey":
        """Unwrap the key that the active party has sent.

        Args:
            masks: The receiver's masks.
            active: The active party.
            wrapped: Output of `wrapped_for`.
            what: Name of the message, for the error.

        Raises:
            Rejected: The text is not a key wrapped for this party.
        """
        return cls(DecisionKey(masks.pair_key(active)).open("key", wrapped, what))

    def wrapped_for(self, masks: Masks, party: str) -> str:
        """Wrap the key for one other party.

        Args:
            masks: The active party's masks.
            party: The receiver.
        """
        return DecisionKey(masks.pair_key(party)).seal("key", self.raw)

    def seal(self, name: str, plain: bytes) -> str:
        """Encrypt deterministically: the same name and content give the same text.

        Args:
            name: Name of the round.
            plain: Content that only the parties may read.
        """
        # The nonce is derived from the content, so that no two contents share one.
        nonce = hmac.digest(self.raw, name.encode() + b":" + plain, hashlib.sha256)[:_NONCE]
        return base64.b64encode(
            nonce + AESGCM(self.raw).encrypt(nonce, plain, name.encode())
        ).decode()

    def open(self, name: str, sealed: object, what: str) -> bytes:
        """Decrypt.

        Args:
            name: Name of the round.
            sealed: Output of `seal`.
            what: Name of the message, for the error.

        Raises:
            Rejected: The text was not encrypted with this key and name.
        """
        try:
            raw = base64.b64decode(str(sealed), validate=True)
            return AESGCM(self.raw).decrypt(raw[:_NONCE], raw[_NONCE:], name.encode())
        except (ValueError, InvalidTag):
            pass
        raise Rejected("malformed", f"{what}: it is not encrypted to this session's parties.")


def key_in(document: Mapping[str, object], party: str) -> str:
    """Return the wrapped key for a party in a session's first decision; empty if it is missing.

    Args:
        document: Document of the decision.
        party: The receiver.
    """
    keys = document.get("keys")
    return str(keys.get(party, "")) if isinstance(keys, Mapping) else ""
