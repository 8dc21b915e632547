"""Sealed rows and encrypted files made again: from pins, the month's points, and a party's keys.

A row is 10 bytes of tag and the packed codes under a pad; tag and pad are BLAKE2b, under the
artifact's public nonce, of a counter, the person's point, the person's zero sharing and the ID.
"""

import base64
import hashlib
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

import numpy as np
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.cmac import CMAC
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from opboost_ops.verifier.plans import Column, padded

_TAG, _BLOCK, _ATTEMPTS = 10, 64, 16
_MAGIC, _NONCE, _PERSON = b"opboost pins 1\n\n", 16, 16

#: The message of no ID, which every table has besides its people.
CANARY = b"c"

_KEY, _ENVELOPE_NONCE = 32, 12


class People(NamedTuple):
    """The people of a sealed table, and the canary last.

    Attributes:
        messages: Theirs: ``s`` or ``i`` and the ID.
        points: 32 bytes each.
        zeros: Their zero sharings, 16 bytes each; None without shares.
    """

    messages: list[bytes]
    points: list[bytes]
    zeros: list[bytes] | None


def messages_of(ids: Sequence[object]) -> list[bytes]:
    """A message per ID: its type and its text or decimal digits."""
    return [b"i%d" % i if isinstance(i, int) else b"s" + str(i).encode() for i in ids]


@lru_cache(maxsize=1)
def person_hashes(key: bytes, ids: tuple[object, ...]) -> list[bytes]:
    """Keyed hashes of IDs: AES-CMAC of a typed ID.

    Args:
        key: Of the use; pins and the forgotten are hashed under ``keyed_by(secret, "people")``.
        ids: Texts or integers.
    """
    key, hashes = keyed_by(key, "id"), []
    for person in ids:
        raw = person.to_bytes(15, "little", signed=True) if isinstance(person, int) else None
        hashes.append(cmac(key, b"s" + str(person).encode() if raw is None else b"i" + raw))
    return hashes


def cmac(key: bytes, message: bytes) -> bytes:
    """AES-CMAC of a message, 16 bytes."""
    mac = CMAC(algorithms.AES(key))
    mac.update(message)
    return mac.finalize()


def pin_digest(secret: bytes, content: bytes) -> str:
    """The digest by which a database points to a pin file."""
    key = keyed_by(secret, "pins")
    return hashlib.blake2b(content, digest_size=32, key=key).hexdigest()


def read_pins(
    secret: bytes, content: bytes, rows: int, columns: Sequence[Column]
) -> tuple[dict[bytes, int], dict[str, np.ndarray]]:
    """The pins in a file: which row each person has, and the responses by column.

    Args:
        secret: The party's.
        content: The file.
        rows: How many people it has, as the database states it.
        columns: Released columns of the feature.

    Raises:
        ValueError: It is no pin file.
    """
    head = len(_MAGIC) + _NONCE
    if not content.startswith(_MAGIC) or not rows or (len(content) - head) % rows:
        raise ValueError("no pin file")
    cipher = Cipher(algorithms.AES(keyed_by(secret, "pins")), modes.CTR(content[16:head]))
    width = (len(content) - head) // rows
    table = np.frombuffer(cipher.decryptor().update(content[head:]), np.uint8).reshape(rows, width)
    people = _rows_of(table[:, :_PERSON].tobytes())
    responses, at = {}, _PERSON
    bits = [column for column in columns if column.is_bit]
    for column in columns:
        if not column.is_bit:
            kind = np.result_type(*map(np.min_scalar_type, column.outputs))
            raw = np.ascontiguousarray(table[:, at : at + kind.itemsize])
            responses[column.name] = raw.view(kind)[:, 0].astype(np.int64)
            at += kind.itemsize
    if bits:
        unpacked = np.unpackbits(table[:, at : at + -(-len(bits) // 8)], axis=1, count=len(bits))
        responses |= {
            column.name: unpacked[:, number].astype(np.int64) for number, column in enumerate(bits)
        }
    return people, responses


@lru_cache(maxsize=1)
def _rows_of(people: bytes) -> dict[bytes, int]:
    """The row of each person; all pin files of a table have the same people."""
    return {people[at : at + _PERSON]: at // _PERSON for at in range(0, len(people), _PERSON)}


def packed(codes: Sequence[np.ndarray], sizes: Sequence[int], rows: int) -> list[bytes]:
    """Rows of codes, each column in as many bits as its size needs, the first one first.

    Args:
        codes: By column, integers from 0 to the column's size, shape (rows,).
        sizes: Of the columns.
        rows: How many rows there are.
    """
    bits = sum(size.bit_length() for size in sizes)
    width = max(-(-bits // 8), 1)
    table = []
    for row in range(rows):
        value = 0
        for code, size in zip(codes, sizes, strict=True):
            value = value << size.bit_length() | int(code[row])
        table.append((value << (8 * width - bits)).to_bytes(width, "big"))
    return table


def content_hash(key: bytes, messages: Sequence[bytes], rows: Sequence[bytes]) -> bytes:
    """A keyed hash of a multiset of people and their rows, 64 bytes."""
    total = 0
    for message, row in zip(messages, rows, strict=True):
        digest = hashlib.blake2b(row + message, key=key, digest_size=_BLOCK).digest()
        total += int.from_bytes(digest, "little")
    return (total % (1 << 8 * _BLOCK)).to_bytes(_BLOCK, "little")


def sharings(pairs: Sequence[bytes], messages: Sequence[bytes], target: int) -> list[bytes]:
    """A feature holder's shares of zero for one target, 16 bytes per person.

    Args:
        pairs: Its keys with each other holder in this run.
        messages: Of the people.
        target: The number of the target among all holders by name.
    """
    block, place = divmod(16 * target, _BLOCK)
    shares = []
    for message in messages:
        total = 0
        for key in pairs:
            digest = hashlib.blake2b(
                bytes([block]) + message, digest_size=_BLOCK, key=key, person=b"opboost-pair"
            ).digest()
            total ^= int.from_bytes(digest[place : place + 16], "big")
        shares.append(total.to_bytes(16, "big"))
    return shares


def sealed(
    secret: bytes, kind: str, place: str, body: bytes, people: People, rows: Sequence[bytes]
) -> tuple[bytes, list[bytes]]:
    """The nonce of a sealed table and its entries, sorted.

    Args:
        secret: The party's.
        kind: ``ranks``, ``values`` or ``routes``.
        place: ``<federation>/<run>/<digest of the plan>``.
        body: The exponent and the hash of the content.
        people: Its people.
        rows: Their packed rows.

    Raises:
        ValueError: Two people have one tag under every nonce.
    """
    content = hashlib.blake2b(body, digest_size=32).hexdigest()
    person = f"opboost-{kind}{'' if people.zeros is None else '-z'}".encode()
    for attempt in range(_ATTEMPTS):
        nonce = keyed_by(secret, f"seal:{kind}:{place}:{content}:{attempt}")
        entries = []
        for number, (message, row) in enumerate(zip(people.messages, rows, strict=True)):
            zero = bytes(16) if people.zeros is None else people.zeros[number]
            rest = people.points[number] + zero + message
            stream = b"".join(
                hashlib.blake2b(
                    bytes([counter]) + rest, digest_size=_BLOCK, key=nonce, person=person
                ).digest()
                for counter in range(-(-(_TAG + len(row)) // _BLOCK))
            )
            pad = stream[_TAG : _TAG + len(row)]
            entries.append(stream[:_TAG] + bytes(a ^ b for a, b in zip(row, pad, strict=True)))
        entries.sort()
        if len({entry[:_TAG] for entry in entries}) == len(entries):
            return nonce, entries
    raise ValueError("two people have one tag")


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
        drawn = _derived(self._secret, info, _KEY + _ENVELOPE_NONCE)
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
    nonce, sealed = raw[_KEY : _KEY + _ENVELOPE_NONCE], raw[_KEY + _ENVELOPE_NONCE :]
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
