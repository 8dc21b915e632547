"""Encryption of an artifact's files to their receiver: X25519, HKDF-SHA256, AES-256-GCM.

The ephemeral key and the nonce of a file follow from the publisher's secret, the receiver's key,
the artifact's digest and the file's name: a retry makes the same bytes, and no two contents ever
share a nonce, because the digest covers the content. So anyone who holds a party's secret can open
what that party published, as its noise can be undone by the secret too.

Manifest and signature stay readable for all who see the store: counts, column names, loss curves.
The digests in it are of salted contents (`exchange.files`), by which no guess of a file can be
tested.

A party's private keys lie where ``site.yaml`` names them, each beside those that it has replaced.
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

#: What encryption adds to a file: an X25519 key, a nonce, and an authentication tag.
OVERHEAD = _HEAD + 16

#: Most bytes that the cipher takes at once.
_MOST = 2**31 - 1

#: What an encrypted file's name ends with.
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
        # Not the seed itself: the signing key is made of that.
        key = X25519PrivateKey.from_private_bytes(_derive(seed, b"opboost:encryption-key", _KEY))
    private, public = key.private_bytes_raw(), key.public_key().public_bytes_raw()
    return base64.b64encode(private).decode(), base64.b64encode(public).decode()


def key_name(public: str) -> str:
    """The short name of a public key, 16 hex digits.

    Args:
        public: The key, base64.
    """
    return hashlib.sha256(base64.b64decode(public)).hexdigest()[:16]


class Envelope:
    """How one party encrypts to one receiver.

    Args:
        secret: The publishing party's 32 secret bytes.
        receiver: The receiver's public key, base64.

    Raises:
        ConfigError: That is no X25519 key.
    """

    def __init__(self, secret: bytes, receiver: str) -> None:
        self._secret = secret
        self._raw = base64.b64decode(receiver)
        self._receiver = X25519PublicKey.from_public_bytes(self._raw)
        self.name = key_name(receiver)
        try:
            X25519PrivateKey.from_private_bytes(secret).exchange(self._receiver)
        except ValueError:  # A point of small order would make every key the same.
            pass
        else:
            return
        raise ConfigError(
            f"The encryption key {self.name} of the federation file is not an X25519 public key.",
            "Put the receiver's there, as `opboost keys init` printed it.",
        )

    def salt(self, place: str, name: str) -> bytes:
        """A salt that hides a file's content behind its digest; 32 bytes, the same at a retry.

        Args:
            place: The artifact's, with federation and run in it.
            name: The file's.
        """
        return _derive(self._secret, b"opboost:salt:" + self._raw + _bound(place, name), 32)

    def encrypt(self, content: bytes, digest: str, name: str) -> bytes:
        """A file's bytes as they go into the store.

        Args:
            content: The file.
            digest: The artifact's.
            name: The file's name in the manifest.

        Raises:
            ArtifactError: It is larger than one file can be.
        """
        if len(content) > _MOST:
            raise ArtifactError(
                f"{name} is larger than 2 GiB, which one encrypted file cannot be.",
                "Split the people among several federations: docs/scaling.md.",
            )
        ephemeral, nonce = self._draw(digest, name)
        head = ephemeral.public_key().public_bytes_raw() + nonce
        key = self._key(ephemeral, digest, name)
        return head + AESGCM(key).encrypt(nonce, content, _bound(digest, name))

    def decrypt(self, raw: bytes, digest: str, name: str) -> bytes:
        """A file that this party itself published.

        Args:
            raw: As it lies in the store.
            digest: The artifact's.
            name: The file's name in the manifest.

        Raises:
            Rejected: It is anything else.
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
    """A receiver's private key, kept inside its process."""

    def __init__(self, key: X25519PrivateKey) -> None:
        self._key = key
        self._raw = key.public_key().public_bytes_raw()

    @classmethod
    def from_file(cls, path: Path) -> "PrivateKey":
        """Read a key written by ``opboost keys init``.

        Raises:
            ConfigError: The file is missing, readable by others, or no X25519 key.
        """
        remedy = (
            "Make one with `opboost keys renew SITE encryption`, and put its public key into the "
            "federation file."
        )
        parse = X25519PrivateKey.from_private_bytes
        return cls(read_key(path, "an X25519 encryption key", parse, remedy))

    @property
    def public(self) -> str:
        """The public key, base64."""
        return base64.b64encode(self._raw).decode()

    def shared(self, other: str) -> bytes:
        """The secret that this key and another party's share, 32 bytes; for deriving keys alone.

        Args:
            other: The other party's public key, base64.

        Raises:
            ConfigError: That is no X25519 key.
        """
        try:
            return self._key.exchange(X25519PublicKey.from_public_bytes(base64.b64decode(other)))
        except ValueError:  # A point of small order would make every secret the same.
            pass
        raise ConfigError(
            f"The encryption key {key_name(other)} of the federation file is not an X25519 public "
            "key.",
            "Put its party's there, as `opboost keys init` printed it.",
        )

    def decrypt(self, raw: bytes, digest: str, name: str) -> bytes:
        """A file that was encrypted to this key.

        Args:
            raw: As it lies in the store.
            digest: The artifact's.
            name: The file's name in the manifest.

        Raises:
            Rejected: It is anything else.
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
    """The private key of a party; None if it has declared no encryption key.

    Args:
        path: Its file; those that it has replaced may lie beside it.
        declared: The public key in the federation file, base64.

    Raises:
        ConfigError: The file does not hold the declared key's other half.
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
        f"Put its public key there, which is {newest}, or the right file into site.yaml.",
    )


def _decrypt(key: bytes, raw: bytes, digest: str, name: str) -> bytes:
    try:
        return AESGCM(key).decrypt(raw[_KEY:_HEAD], raw[_HEAD:], _bound(digest, name))
    except (InvalidTag, ValueError):
        pass
    raise _changed_file(name)


def _changed_file(name: str) -> Rejected:
    return Rejected("bad_digest", f"{name}{SUFFIX} does not open with the key it is meant for.")


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
        path: Its file, or where else it is kept; see `config.key_sources`.
        what: What kind of key it is, for the error: "an Ed25519 signing key".
        parse: Makes a key of its raw bytes; raises ValueError if they are none.
        remedy: How to make one.

    Raises:
        ConfigError: The file is missing, readable by others, or no such key.
    """
    if not is_file_entry(path):
        text = text_of(path, what.split(maxsplit=2)[2])
        with suppress(ValueError):
            return parse(base64.b64decode(text, validate=True))
        raise ConfigError(f"{path} is not {what}.", remedy)
    try:
        if path.stat().st_mode & 0o077:
            raise ConfigError(
                f"The {what.split(maxsplit=2)[2]} {path.name} can be read by others.",
                "Make it readable by its owner alone (chmod 600).",
            )
        return parse(base64.b64decode(path.read_text().strip(), validate=True))
    except OSError:
        problem = f"The {what.split(maxsplit=2)[2]} {path.name} cannot be read."
    except ValueError:
        problem = f"{path.name} is not {what}."
    raise ConfigError(problem, remedy)


def all_keys(path: Path, read: Callable[[Path], Key]) -> Iterator[Key]:
    """A key, then those that it has replaced: the party may need them for runs under way.

    They lie beside it as ``NAME.until-...``, which `opboost keys renew` makes; of a key that lies
    in no file, one may be kept under the same name with ``_FORMER`` behind it.

    Args:
        path: The key's place, as ``site.yaml`` names it.
        read: Reads one.

    Raises:
        ConfigError: One of them cannot be read, as soon as it is asked for.
    """
    yield read(path)
    if is_file_entry(path):
        for former in sorted(path.parent.glob(f"{path.name}.until-*")):
            yield read(former)
        return
    beside = Path(f"{path}_FORMER")
    try:
        text_of(beside, "former key")
    except ConfigError:
        return
    yield read(beside)


def write_private(path: Path, content: bytes) -> None:
    """Write a file that only its owner reads, and that is never overwritten."""
    private_folder(path.parent)
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with open(handle, "wb") as file:
        file.write(content)
