"""Encryption of an artifact's files to their receiver: X25519, HKDF-SHA256, AES-256-GCM.

The ephemeral key and the nonce of a file are derived from the publisher's secret, the receiver's
key, the artifact's digest and the file's name. So a retry produces the same bytes, and two contents
never share a nonce, because the digest covers the content. Anyone who holds a party's secret can
therefore decrypt what that party published.

Manifest and signature are not encrypted: everyone who can read the store sees counts, column names
and loss curves. The manifest's digests are of salted contents (`exchange.files`), so guesses about
a file's content cannot be verified.

A party's private keys are located where ``site.yaml`` names them, next to those they replaced.
"""

import base64
import hashlib
import os
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from opboost_ops.config.key_sources import is_file_entry, text_of
from opboost_ops.errors import ArtifactError, ConfigError
from opboost_ops.exchange.rejection import Rejected
from opboost_ops.tables.spill.files import private_folder

_KEY, _NONCE = 32, 12
_HEAD = _KEY + _NONCE

#: Bytes that encryption adds to a file: an X25519 key, a nonce, and an authentication tag.
OVERHEAD = _HEAD + 16

#: Maximum bytes that the cipher accepts in one call.
_MOST = 2**31 - 1

#: Suffix of an encrypted file's name.
SUFFIX = ".enc"

Key = TypeVar("Key")


def new_encryption_key(seed: bytes | None = None) -> tuple[str, str]:
    """Make an encryption key.

    Args:
        seed: 32 bytes that determine the key, for experiments; fresh randomness when absent.

    Returns:
        The private and the public key, each the base64 of its 32 raw bytes.
    """
    key = X25519PrivateKey.generate()
    if seed is not None:
        # The seed itself is the signing key, so the encryption key is derived from it.
        key = X25519PrivateKey.from_private_bytes(_derive(seed, b"opboost:encryption-key", _KEY))
    private, public = key.private_bytes_raw(), key.public_key().public_bytes_raw()
    return base64.b64encode(private).decode(), base64.b64encode(public).decode()


def key_name(public: str) -> str:
    """Return the short name of a public key, 16 hex digits.

    Args:
        public: The key, base64.
    """
    return hashlib.sha256(base64.b64decode(public)).hexdigest()[:16]


class Envelope:
    """Encrypts from one party to one receiver.

    Args:
        secret: The publishing party's 32 secret bytes.
        receiver: The receiver's public key, base64.

    Raises:
        ConfigError: The receiver's key is not an X25519 key.
    """

    def __init__(self, secret: bytes, receiver: str) -> None:
        self._secret = secret
        self._raw = base64.b64decode(receiver)
        self._receiver = X25519PublicKey.from_public_bytes(self._raw)
        self.name = key_name(receiver)
        try:
            X25519PrivateKey.from_private_bytes(secret).exchange(self._receiver)
        except ValueError:  # With a point of small order, every shared key would be equal.
            pass
        else:
            return
        raise ConfigError(
            f"The encryption key {self.name} of the federation file is not an X25519 public key.",
            "Replace it by the receiver's key that `opboost keys init` printed.",
        )

    def salt(self, place: str, name: str) -> bytes:
        """Return a salt that hides a file's content behind its digest; 32 bytes, same in a retry.

        Args:
            place: The artifact's place, including federation and run.
            name: Name of the file.
        """
        return _derive(self._secret, b"opboost:salt:" + self._raw + _bound(place, name), 32)

    def encrypt(self, content: bytes, digest: str, name: str) -> bytes:
        """Encrypt a file for the store.

        Args:
            content: The file.
            digest: The artifact's digest.
            name: The file's name in the manifest.

        Raises:
            ArtifactError: The file is too large for one encryption.
        """
        if len(content) > _MOST:
            raise ArtifactError(
                f"{name} is larger than 2 GiB, the limit of one encrypted file.",
                "Split the people among several federations: docs/scaling.md.",
            )
        ephemeral, nonce = self._draw(digest, name)
        head = ephemeral.public_key().public_bytes_raw() + nonce
        key = self._key(ephemeral, digest, name)
        return head + AESGCM(key).encrypt(nonce, content, _bound(digest, name))

    def decrypt(self, raw: bytes, digest: str, name: str) -> bytes:
        """Decrypt a file that this party published.

        Args:
            raw: The stored bytes.
            digest: The artifact's digest.
            name: The file's name in the manifest.

        Raises:
            Rejected: It is not the file that this party encrypted.
        """
        ephemeral, _ = self._draw(digest, name)
        return _decrypt(self._key(ephemeral, digest, name), raw, digest, name)

    def _draw(self, digest: str, name: str) -> tuple[X25519PrivateKey, bytes]:
        info = b"opboost:envelope:" + self._raw + _bound(digest, name)
        drawn = _derive(self._secret, info, _HEAD)
        return X25519PrivateKey.from_private_bytes(drawn[:_KEY]), drawn[_KEY:]

    def _key(self, ephemeral: X25519PrivateKey, digest: str, name: str) -> bytes:
        public = ephemeral.public_key().public_bytes_raw()
        return _file_key(ephemeral.exchange(self._receiver), public, self._raw, digest, name)


class PrivateKey:
    """A receiver's private key, which never leaves its process."""

    def __init__(self, key: X25519PrivateKey) -> None:
        self._key = key
        self._raw = key.public_key().public_bytes_raw()

    @classmethod
    def from_file(cls, path: Path) -> "PrivateKey":
        """Read a key written by ``opboost keys init``.

        Raises:
            ConfigError: The file is missing, readable by other users, or not an X25519 key.
        """
        remedy = (
            "Create one with `opboost keys renew SITE encryption`, and put its public key into the "
            "federation file."
        )
        parse = X25519PrivateKey.from_private_bytes
        return cls(read_key(path, "an X25519 encryption key", parse, remedy))

    @property
    def public(self) -> str:
        """The public key, base64."""
        return base64.b64encode(self._raw).decode()

    def shared(self, other: str) -> bytes:
        """Return the secret shared with another party's key, 32 bytes; only for deriving keys.

        Args:
            other: The other party's public key, base64.

        Raises:
            ConfigError: The other key is not an X25519 key.
        """
        try:
            return self._key.exchange(X25519PublicKey.from_public_bytes(base64.b64decode(other)))
        except ValueError:  # With a point of small order, every shared secret would be equal.
            pass
        raise ConfigError(
            f"The encryption key {key_name(other)} of the federation file is not an X25519 public "
            "key.",
            "Replace it by its party's key that `opboost keys init` printed.",
        )

    def decrypt(self, raw: bytes, digest: str, name: str) -> bytes:
        """Decrypt a file that was encrypted to this key.

        Args:
            raw: The stored bytes.
            digest: The artifact's digest.
            name: The file's name in the manifest.

        Raises:
            Rejected: It was not encrypted to this key, or was changed.
        """
        public = raw[:_KEY]
        try:
            shared = self._key.exchange(X25519PublicKey.from_public_bytes(public))
        except ValueError:
            shared = None
        if shared is None:
            raise _changed_file(name)
        return _decrypt(_file_key(shared, public, self._raw, digest, name), raw, digest, name)


def private_key(path: Path, declared: str | None) -> PrivateKey | None:
    """Return a party's private key; None if it has declared no encryption key.

    Args:
        path: File of the key; replaced keys may be next to it.
        declared: The public key in the federation file, base64.

    Raises:
        ConfigError: No key at the path belongs to the declared public key.
    """
    if declared is None:
        return None
    newest = ""
    for key in all_keys(path, PrivateKey.from_file):
        if key.public == declared:
            return key
        newest = newest or key.public
    raise ConfigError(
        f"The encryption key {path.name} is not the one in the federation file.",
        f"Declare its public key there, {newest}, or name the right file in site.yaml.",
    )


def _decrypt(key: bytes, raw: bytes, digest: str, name: str) -> bytes:
    try:
        return AESGCM(key).decrypt(raw[_KEY:_HEAD], raw[_HEAD:], _bound(digest, name))
    except (InvalidTag, ValueError):
        pass
    raise _changed_file(name)


def _changed_file(name: str) -> Rejected:
    return Rejected("bad_digest", f"{name}{SUFFIX} cannot be decrypted with its receiver's key.")


def _file_key(shared: bytes, ephemeral: bytes, receiver: bytes, digest: str, name: str) -> bytes:
    info = b"opboost:file:" + ephemeral + receiver + _bound(digest, name)
    return _derive(shared, info, _KEY)


def _bound(digest: str, name: str) -> bytes:
    return f"{digest}/{name}".encode()


def _derive(secret: bytes, info: bytes, length: int) -> bytes:
    return HKDF(algorithm=SHA256(), length=length, salt=None, info=info).derive(secret)


def read_key(path: Path, what: str, parse: Callable[[bytes], Key], remedy: str) -> Key:
    """Read a private key.

    Args:
        path: File of the key, or another source; see `config.key_sources`.
        what: Kind of the key, for the error: "an Ed25519 signing key".
        parse: Makes a key from raw bytes; raises ValueError if they are invalid.
        remedy: How to create one.

    Raises:
        ConfigError: The file is missing, readable by other users, or not such a key.
    """
    if not is_file_entry(path):
        text = text_of(path, what.split(maxsplit=2)[2])
        with suppress(ValueError):
            return parse(base64.b64decode(text, validate=True))
        raise ConfigError(f"{path} is not {what}.", remedy)
    try:
        if path.stat().st_mode & 0o077:
            raise ConfigError(
                f"Other users can read the {what.split(maxsplit=2)[2]} {path.name}.",
                "Restrict it to its owner: chmod 600.",
            )
        return parse(base64.b64decode(path.read_text().strip(), validate=True))
    except OSError:
        problem = f"The {what.split(maxsplit=2)[2]} {path.name} cannot be read."
    except ValueError:
        problem = f"{path.name} is not {what}."
    raise ConfigError(problem, remedy)


def all_keys(path: Path, read: Callable[[Path], Key]) -> Iterator[Key]:
    """Yield a key, then those that it has replaced, which current runs may still need.

    Replaced keys are next to it as ``NAME.until-...``, which `opboost keys renew` creates. For a
    key that is not a file, one may be stored under the same name with the suffix ``_FORMER``.

    Args:
        path: Location of the key, as named in ``site.yaml``.
        read: Reads a key.

    Raises:
        ConfigError: A key cannot be read; raised when the iteration reaches it.
    """
    yield read(path)
    if is_file_entry(path):
        for former in sorted(path.parent.glob(f"{path.name}.until-*")):
            yield read(former)
        return
    former_path = Path(f"{path}_FORMER")
    try:
        text_of(former_path, "former key")
    except ConfigError:
        return
    yield read(former_path)


def write_private(path: Path, content: bytes) -> None:
    """Write a new file that only its owner can read."""
    private_folder(path.parent)
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with open(handle, "wb") as file:
        file.write(content)
