"""Decisions for the parties' eyes: under a key of the session, which only they are given.

The active party's key of decisions follows from its key of the run. With the first decision it is
wrapped for each other party, under what the two parties' keys of the run share: once these are
destroyed, nobody can unwrap it again.
"""

import base64
import hashlib
import hmac
from collections.abc import Mapping

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from opboost_ops.exchange.rejection import Rejected
from opboost_ops.exchange.rounds.masks import Masks

_NONCE = 12


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
