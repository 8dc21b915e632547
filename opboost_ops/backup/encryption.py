"""The encryption of a backup: a stream that opens with a passphrase, or with one private key.

The key comes from the passphrase by scrypt (RFC 7914; N = 2^17, r = 8, p = 1: 128 MiB), or from an
X25519 agreement between an ephemeral key and the recipient's by HKDF-SHA256. The content is cut
into chunks of 64 KiB, each under ChaCha20-Poly1305 with its number and whether it is the last one
as the nonce (STREAM, Hoang et al. 2015, as in the age format). A chunk that was changed, moved, or
cut off does not open; reading at any place opens the chunks there alone.
"""

import base64
import io
import json
import secrets
from contextlib import suppress
from dataclasses import dataclass
from typing import IO, Any

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from cryptography.hazmat.primitives.kdf.scrypt import Scrypt

from opboost_ops.errors import ArtifactError, ConfigError, OpBoostError
from opboost_ops.exchange.encryption import PrivateKey, key_name

#: Fewest characters of a passphrase: anyone who finds the file may try for years.
LEAST = 12

_MAGIC = b"opboost-backup/2\n"
_CHUNK, _TAG = 1 << 16, 16
_COST, _BLOCKS, _LANES = 2**17, 8, 1

#: Most bytes of the header's line.
_HEADER = 1024


@dataclass(frozen=True)
class Lock:
    """What a backup is encrypted to: one of the two.

    Attributes:
        passphrase: A passphrase.
        recipient: An X25519 public key, base64.
    """

    passphrase: str | None = None
    recipient: str | None = None


@dataclass(frozen=True)
class Key:
    """What opens a backup: one of the two.

    Attributes:
        passphrase: The passphrase.
        private: The private half of the recipient's key.
    """

    passphrase: str | None = None
    private: PrivateKey | None = None


class Encrypted:
    """A file to write to, encrypted; it is whole once it is closed.

    Args:
        file: Where to; it is only ever added to.
        lock: What it is encrypted to.

    Raises:
        ConfigError: The passphrase is short, or the recipient's key is none.
    """

    def __init__(self, file: IO[bytes], lock: Lock) -> None:
        name, salt, key = _locked(lock)
        header = {"to": name, "salt": base64.b64encode(salt).decode()}
        self._header = _MAGIC + json.dumps(header).encode() + b"\n"
        self._cipher = ChaCha20Poly1305(key)
        self._file = file
        self._waiting = bytearray()
        self._number = 0
        file.write(self._header)

    def write(self, content: bytes | bytearray | memoryview) -> int:
        """Add content."""
        self._waiting += content
        while len(self._waiting) > _CHUNK:
            self._put(self._waiting[:_CHUNK], False)
            del self._waiting[:_CHUNK]
        return memoryview(content).nbytes

    def flush(self) -> None:
        """Nothing: what is left waits for the end."""

    def close(self) -> None:
        """Write the last chunk."""
        self._put(self._waiting, True)

    def _put(self, chunk: bytearray, last: bool) -> None:
        nonce = _nonce(self._number, last)
        self._file.write(self._cipher.encrypt(nonce, bytes(chunk), self._header))
        self._number += 1


class Decrypted(io.RawIOBase):
    """An encrypted file to read from, at any place.

    Args:
        file: The file, at its beginning.
        key: What opens it.

    Raises:
        ArtifactError: It is none, or cut short.
        ConfigError: It does not open with this key.
    """

    def __init__(self, file: IO[bytes], key: Key) -> None:
        super().__init__()
        magic, line = file.read(len(_MAGIC)), file.readline(_HEADER)
        if magic != _MAGIC:
            raise ArtifactError(
                "This is not a backup of this software, or it is one of 0.2.0 or before.",
                "Restore an older one with the release that made it. Nothing was changed.",
            )
        self._file, self._header, self._start = file, magic + line, len(magic + line)
        self._cipher = ChaCha20Poly1305(_unlocked(line, key))
        body = file.seek(0, io.SEEK_END) - self._start
        self._count = -(-body // (_CHUNK + _TAG))
        if self._count == 0:
            raise _damaged()
        self._size = body - _TAG * self._count
        self._place, self._held, self._content = 0, -1, b""
        if self._count > 1 and not self._opens(0):
            raise _wrong()
        if not self._opens(self._count - 1):
            raise _damaged() if self._count > 1 else _wrong()

    def readable(self) -> bool:
        """It is."""
        return True

    def seekable(self) -> bool:
        """It is."""
        return True

    def tell(self) -> int:
        """Where the next byte is read."""
        return self._place

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Read on from another place."""
        self._place = offset + {io.SEEK_SET: 0, io.SEEK_CUR: self._place}.get(whence, self._size)
        return self._place

    def readinto(self, target: Any) -> int:
        """Read what one chunk holds of the next bytes.

        Raises:
            ArtifactError: The chunk was changed.
        """
        number, offset = divmod(self._place, _CHUNK)
        if self._place >= self._size:
            return 0
        if number != self._held and not self._opens(number):
            raise _damaged()
        view = memoryview(target).cast("B")
        part = self._content[offset : offset + len(view)]
        view[: len(part)] = part
        self._place += len(part)
        return len(part)

    def _opens(self, number: int) -> bool:
        self._file.seek(self._start + number * (_CHUNK + _TAG))
        nonce = _nonce(number, number == self._count - 1)
        with suppress(InvalidTag):
            sealed = self._file.read(_CHUNK + _TAG)
            self._content = self._cipher.decrypt(nonce, sealed, self._header)
            self._held = number
            return True
        return False


def _locked(lock: Lock) -> tuple[str, bytes, bytes]:
    """Name of the recipient's key, salt, and key of a new file."""
    if lock.recipient is None:
        if lock.passphrase is None or len(lock.passphrase) < LEAST:
            raise ConfigError(
                f"The passphrase has fewer than {LEAST} characters; nothing was written.",
                "Use a longer one: anyone who finds the file can try for years.",
            )
        salt = secrets.token_bytes(32)
        return "", salt, _stretched(lock.passphrase, salt)
    with suppress(ValueError):
        ephemeral, to = X25519PrivateKey.generate(), base64.b64decode(lock.recipient, validate=True)
        shared = ephemeral.exchange(X25519PublicKey.from_public_bytes(to))
        salt = ephemeral.public_key().public_bytes_raw()
        return key_name(lock.recipient), salt, _derived(shared, salt, to)
    raise ConfigError(
        "The recipient is not an X25519 public key; nothing was written.",
        "`opboost keys init` in a folder of its own makes a pair.",
    )


def _unlocked(line: bytes, key: Key) -> bytes:
    """The key of a file."""
    try:
        header = json.loads(line)
        to, salt = header["to"], base64.b64decode(header["salt"], validate=True)
    except (ValueError, KeyError, TypeError):
        raise _damaged() from None
    if to and key.private is not None:
        with suppress(OpBoostError):
            shared = key.private.shared(header["salt"])
            return _derived(shared, salt, base64.b64decode(key.private.public))
        raise _wrong()
    if not to and key.passphrase is not None:
        return _stretched(key.passphrase, salt)
    how = f"the private half of the key {to}" if to else "a passphrase"
    raise ConfigError(f"This backup opens with {how}.", "Nothing was changed.")


def _stretched(passphrase: str, salt: bytes) -> bytes:
    scrypt = Scrypt(salt=salt, length=32, n=_COST, r=_BLOCKS, p=_LANES)
    return scrypt.derive(passphrase.encode())


def _derived(shared: bytes, ephemeral: bytes, recipient: bytes) -> bytes:
    info = b"opboost:backup:" + ephemeral + recipient
    return HKDF(algorithm=SHA256(), length=32, salt=None, info=info).derive(shared)


def _nonce(number: int, last: bool) -> bytes:
    return number.to_bytes(11, "big") + bytes([last])


def _wrong() -> ConfigError:
    return ConfigError(
        "The backup does not open with this key, or was edited.", "Nothing was changed."
    )


def _damaged() -> ArtifactError:
    return ArtifactError(
        "The backup is cut short, damaged or was edited.", "Take another one. Nothing was changed."
    )
