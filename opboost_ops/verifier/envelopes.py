"""Keys that follow from a party's secret, and files as a party encrypts them to a receiver."""

import base64
import hashlib
from pathlib import Path

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from opboost_ops.verifier.sizes import padded

_KEY, _NONCE = 32, 12


def keyed_by(secret: bytes, purpose: str) -> bytes:
    """A key of 32 bytes for one purpose."""
    return _derived(secret, f"opboost:{purpose}".encode(), 32)


def read_private_key(path: Path) -> bytes:
    """The 32 bytes of a private key from a file of base64.

    Raises:
        OSError: It cannot be read.
        ValueError: It is no such key.
    """
    key = base64.b64decode(path.read_text().strip(), validate=True)
    if len(key) != _KEY:
        raise ValueError("no key")
    return key


class Envelope:
    """How one party encrypts to one receiver, so that a retry makes the same bytes."""

    def __init__(self, secret: bytes, receiver: str) -> None:
        self._secret = secret
        self._receiver = base64.b64decode(receiver)

    def salted(self, content: bytes, place: str, name: str, rows: int, columns: int) -> bytes:
        """A file as it is before encryption: salt, length, content, zeros.

        Args:
            content: The file.
            place: The artifact's place.
            name: The file's name in the manifest.
            rows: The artifact's row count.
            columns: How many columns it has.
        """
        info = b"opboost:salt:" + self._receiver + f"{place}/{name}".encode()
        salt = _derived(self._secret, info, 32)
        raw = salt + len(content).to_bytes(8, "little") + content
        return raw + bytes(padded(len(content), rows, columns) - len(raw))

    def encrypted(self, salted: bytes, digest: str, name: str) -> bytes:
        """A file as it lies in the store."""
        ephemeral, nonce = self._drawn(digest, name)
        public = ephemeral.public_key().public_bytes_raw()
        shared = ephemeral.exchange(X25519PublicKey.from_public_bytes(self._receiver))
        key = _file_key(shared, public, self._receiver, digest, name)
        return public + nonce + AESGCM(key).encrypt(nonce, salted, f"{digest}/{name}".encode())

    def _drawn(self, digest: str, name: str) -> tuple[X25519PrivateKey, bytes]:
        info = b"opboost:envelope:" + self._receiver + f"{digest}/{name}".encode()
        drawn = _derived(self._secret, info, _KEY + _NONCE)
        return X25519PrivateKey.from_private_bytes(drawn[:_KEY]), drawn[_KEY:]


def opened(raw: bytes, key: bytes, digest: str, name: str) -> bytes:
    """The content of a file that was encrypted to a party.

    Args:
        raw: As it lies in the store.
        key: The receiver's private key.
        digest: The artifact's.
        name: The file's name in the manifest.

    Raises:
        ValueError: It does not open with that key.
    """
    private = X25519PrivateKey.from_private_bytes(key)
    own = private.public_key().public_bytes_raw()
    shared = private.exchange(X25519PublicKey.from_public_bytes(raw[:_KEY]))
    file_key = _file_key(shared, raw[:_KEY], own, digest, name)
    nonce, sealed = raw[_KEY : _KEY + _NONCE], raw[_KEY + _NONCE :]
    try:
        salted = AESGCM(file_key).decrypt(nonce, sealed, f"{digest}/{name}".encode())
    except InvalidTag:
        raise ValueError("not encrypted to this key") from None
    return salted[40 : 40 + int.from_bytes(salted[32:40], "little")]


def shared_key(private: bytes, public: str) -> bytes:
    """X25519 of a private key and a public one, base64."""
    key = X25519PublicKey.from_public_bytes(base64.b64decode(public))
    return X25519PrivateKey.from_private_bytes(private).exchange(key)


def multiplied(exponent: bytes, points: bytes) -> bytes:
    """Each point of 32 bytes multiplied by an exponent."""
    key = X25519PrivateKey.from_private_bytes(exponent)
    return b"".join(
        key.exchange(X25519PublicKey.from_public_bytes(points[at : at + 32]))
        for at in range(0, len(points), 32)
    )


def public_key(private: bytes) -> str:
    """The public half of an encryption key, base64."""
    key = X25519PrivateKey.from_private_bytes(private)
    return base64.b64encode(key.public_key().public_bytes_raw()).decode()


def fingerprint(secret: bytes) -> str:
    """The name under which a database knows a secret."""
    return keyed_by(secret, "fingerprint").hex()[:16]


def sha256(content: bytes) -> str:
    """Sha256, hex."""
    return hashlib.sha256(content).hexdigest()


def _file_key(shared: bytes, ephemeral: bytes, receiver: bytes, digest: str, name: str) -> bytes:
    info = b"opboost:file:" + ephemeral + receiver + f"{digest}/{name}".encode()
    return _derived(shared, info, _KEY)


def _derived(secret: bytes, info: bytes, length: int) -> bytes:
    return HKDF(algorithm=SHA256(), length=length, salt=None, info=info).derive(secret)
