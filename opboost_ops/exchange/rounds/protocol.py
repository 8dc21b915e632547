"""Rounds: every party makes a vector of its own rows, and one of them decides by the sum.

The active party's key of decisions follows from its key of the run. With the first decision it is
wrapped for each other party, under what the two parties' keys of the run share: once these are
destroyed, nobody can unwrap it again.
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

#: Name of the logger that says how far the rounds are, and whom a party waits for.
LOGGER = "opboost_ops.rounds"

Phase = Literal["facts", "lookup", "trees"]

Decision = TypeVar("Decision", bound=Record)

_NONCE = 12


@dataclass(frozen=True)
class Round:
    """Which round it is.

    Attributes:
        phase: What the sums are for.
        tree: Number of the boosting round, from 0.
        level: Number within the phase or tree, from 0.
    """

    phase: Phase
    tree: int = 0
    level: int = 0

    @property
    def name(self) -> str:
        """Its name, which is plain and sorts in the order of the rounds."""
        return f"{self.phase}-{self.tree:05d}-{self.level:02d}"

    def __str__(self) -> str:
        if self.phase == "trees":
            return f"tree {self.tree + 1}, level {self.level + 1}"
        return "facts" if self.phase == "facts" else f"quantile lookup, round {self.level + 1}"

    def unfit(self) -> ContractError:
        """The error for a decision that does not fit the round."""
        return ContractError(
            f"{self}: the decision does not fit the round.",
            "Bring all parties to the same release of this software, and trigger a new run.",
        )


class Rounds(Protocol):
    """How vectors become decisions."""

    @property
    def parties(self) -> int:
        """How many add up."""
        ...

    @property
    def derives(self) -> bool:
        """True if the sums of a node may be derived from its parent's and its sibling's."""
        ...

    def total(self, name: Round) -> np.ndarray:
        """The sum of a round of this tree that was decided at an earlier try; int64.

        Args:
            name: Which one.
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
        """One round; neither function is called if its decision is known from an earlier try.

        Args:
            name: Which one.
            size: How many integers the vector has.
            vector: Makes this party's, int64, shape (size,).
            decide: Makes the decision of the sum; called at one party only.
            form: The decision's type.
            bounds: What no sum's absolute value passes, for the integers in turn; public, because
                a vector's length follows from them. Below 2^63 when absent.
        """
        ...


class Alone:
    """All rows are at one party."""

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
    """The party that writes.

    Attributes:
        party: Its name.
        signer: Its signing key.
        secret: Its 32 secret bytes, for encryption.
        seed: What its keys of this run follow from; None where the session has ended, and what was
            decided is only read again.
        experiment: Whether what it signs carries no guarantee.
        noise: Draws so many integers for a sum of a phase, int64, where sums have noise.
        decisions: The key of the decisions of a session that has ended.
        standing: Where the party's state stands, which goes with its key of the run.
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
    """The messages exchanged.

    Attributes:
        sums: Integers whose sums the active party has learnt, by phase.
        sent: Messages.
        bytes: Of them.
        waited: Seconds.
        digest: Of all that was sent, in order.
    """

    sums: dict[str, int] = field(default_factory=dict)
    sent: int = 0
    bytes: int = 0
    waited: float = 0.0
    digest: str = ""


class DecisionKey:
    """The key of a session's decisions.

    Args:
        raw: 32 bytes.
    """

    def __init__(self, raw: bytes) -> None:
        self.raw = raw

    @classmethod
    def of_run(cls, seed: bytes) -> "DecisionKey":
        """The active party's, from what its keys of the run follow from; a retry has the same."""
        return cls(HKDF(SHA256(), 32, None, b"opboost:decisions").derive(seed))

    @classmethod
    def unwrapped(cls, masks: Masks, active: str, wrapped: str, what: str) -> "DecisionKey":
        """The key as the active party has sent it.

        Args:
            masks: The receiver's.
            active: The active party.
            wrapped: As `wrapped_for` gives it.
            what: Name of the message, for the error.

        Raises:
            Rejected: It is not.
        """
        return cls(DecisionKey(masks.pair_key(active)).open("key", wrapped, what))

    def wrapped_for(self, masks: Masks, party: str) -> str:
        """The key, for one other party.

        Args:
            masks: The active party's.
            party: For whom.
        """
        return DecisionKey(masks.pair_key(party)).seal("key", self.raw)

    def seal(self, name: str, plain: bytes) -> str:
        """Encrypt; the same content under the same name makes the same text.

        Args:
            name: The round's.
            plain: What is to be read by the parties alone.
        """
        # The nonce follows from the content: another content never shares it.
        nonce = hmac.digest(self.raw, name.encode() + b":" + plain, hashlib.sha256)[:_NONCE]
        return base64.b64encode(
            nonce + AESGCM(self.raw).encrypt(nonce, plain, name.encode())
        ).decode()

    def open(self, name: str, sealed: object, what: str) -> bytes:
        """Decrypt.

        Args:
            name: The round's.
            sealed: As `seal` gave it.
            what: Name of the message, for the error.

        Raises:
            Rejected: It is anything else.
        """
        try:
            raw = base64.b64decode(str(sealed), validate=True)
            return AESGCM(self.raw).decrypt(raw[:_NONCE], raw[_NONCE:], name.encode())
        except (ValueError, InvalidTag):
            pass
        raise Rejected("malformed", f"{what}: it is not encrypted to this session's parties.")


def key_in(document: Mapping[str, object], party: str) -> str:
    """The wrapped key that a first decision holds for a party; empty if it holds none.

    Args:
        document: The decision's.
        party: Whose.
    """
    keys = document.get("keys")
    return str(keys.get(party, "")) if isinstance(keys, Mapping) else ""
