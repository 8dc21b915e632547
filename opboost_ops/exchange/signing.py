"""Ed25519 signatures: which party said this."""

import base64
from functools import lru_cache
from pathlib import Path

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from opboost_ops.exchange.key_files import read_key


def new_signing_key(seed: bytes | None = None) -> tuple[str, str]:
    """Make a signing key.

    Args:
        seed: 32 bytes that determine the key, for experiments; fresh randomness when absent.

    Returns:
        The private and the public key, each the base64 of its 32 raw bytes.
    """
    key = Ed25519PrivateKey.from_private_bytes(seed) if seed else Ed25519PrivateKey.generate()
    return _text(key.private_bytes_raw()), _text(key.public_key().public_bytes_raw())


class Signer:
    """A party's private key, kept inside its process."""

    def __init__(self, key: Ed25519PrivateKey) -> None:
        self._key = key
        #: The public key, base64.
        self.public = _text(key.public_key().public_bytes_raw())

    @classmethod
    def from_file(cls, path: Path) -> "Signer":
        """Read a key written by ``opboost keys init``.

        Raises:
            ConfigError: The file is missing, readable by others, or no Ed25519 key.
        """
        parse = Ed25519PrivateKey.from_private_bytes
        remedy = "Make one with `opboost keys init`."
        return cls(read_key(path, "an Ed25519 signing key", parse, remedy))

    def sign(self, message: bytes) -> bytes:
        """The 64-byte signature; the same message always gives the same bytes."""
        return self._key.sign(message)


def signed_by(public: str, message: bytes, signature: bytes) -> bool:
    """True if the holder of a key signed a message.

    Args:
        public: The key, base64.
        message: The signed bytes.
        signature: What came with them.
    """
    try:
        _public_key(public).verify(signature, message)
    except (InvalidSignature, ValueError):
        return False
    return True


@lru_cache(maxsize=256)
def _public_key(public: str) -> Ed25519PublicKey:
    return Ed25519PublicKey.from_public_bytes(base64.b64decode(public))


def _text(raw: bytes) -> str:
    return base64.b64encode(raw).decode()
