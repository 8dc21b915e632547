"""Sealed rows and encrypted files, derived from pins, the month's points and a party's keys.

A sealed row is a tag of 10 bytes, followed by the packed codes under a pad. Tag and pad are
BLAKE2b, keyed by the artifact's public nonce, of a counter and the person's point, share of zero
and ID.
"""

import base64
import hashlib
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from pathlib import Path

import numpy as np
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.cmac import CMAC
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from opboost_ops.verifier.places import Artifact
from opboost_ops.verifier.plans import Column, padded_size

_TAG_BYTES, _BLOCK, _ATTEMPTS, _PART = 10, 64, 16, 1 << 20
_MAGIC, _NONCE, _PERSON = b"opboost pins 1\n\n", 16, 16

#: The message of an extra entry in every table, which is no person's.
CANARY = b"c"

_KEY, _ENVELOPE_NONCE, _SALT, _LENGTH = 32, 12, 32, 8


def encode_ids(ids: Sequence[str | int]) -> list[bytes]:
    """One message per ID: a letter for its type, then its text or decimal digits."""
    return [b"i%d" % i if isinstance(i, int) else b"s" + str(i).encode() for i in ids]


@lru_cache(maxsize=1)
def hash_people(key: bytes, ids: tuple[str | int, ...]) -> list[bytes]:
    """Keyed hashes of IDs, as in pin files and in the list of forgotten people."""
    messages = [
        b"s" + i.encode() if isinstance(i, str) else b"i" + i.to_bytes(15, "little", signed=True)
        for i in ids
    ]
    return cmacs(derive_key(key, "id"), messages)


def cmacs(key: bytes, messages: Sequence[bytes]) -> list[bytes]:
    """The AES-CMAC of each message, 16 bytes."""
    hashes, cipher = [], algorithms.AES(key)
    for message in messages:
        mac = CMAC(cipher)
        mac.update(message)
        hashes.append(mac.finalize())
    return hashes


def pin_digest(secret: bytes, content: bytes) -> str:
    """The keyed digest of a pin file, by which the database refers to it."""
    key = derive_key(secret, "pins")
    return hashlib.blake2b(content, digest_size=32, key=key).hexdigest()


def read_pins(
    secret: bytes, content: bytes, rows: int, columns: Sequence[Column]
) -> tuple[dict[bytes, int], dict[str, np.ndarray]]:
    """The pins of a feature: each person's row number, and the responses by column."""
    head = len(_MAGIC) + _NONCE
    if not content.startswith(_MAGIC) or not rows or (len(content) - head) % rows:
        raise ValueError("not a pin file")
    cipher = Cipher(algorithms.AES(derive_key(secret, "pins")), modes.CTR(content[16:head]))
    width = (len(content) - head) // rows
    table = np.frombuffer(cipher.decryptor().update(content[head:]), np.uint8).reshape(rows, width)
    people = _rows_by_person(table[:, :_PERSON].tobytes())
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
def _rows_by_person(people: bytes) -> dict[bytes, int]:
    """Each person's row number. Cached: all pin files of a table have the same people."""
    return {people[at : at + _PERSON]: at // _PERSON for at in range(0, len(people), _PERSON)}


def pack_rows(codes: Sequence[np.ndarray], sizes: Sequence[int]) -> list[bytes]:
    """Pack columns of codes into rows: each code takes the bits of its column's size, in order."""
    bits = [
        code[:, np.newaxis] >> np.arange(size.bit_length())[::-1] & 1
        for code, size in zip(codes, sizes, strict=True)
    ]
    return [row.tobytes() for row in np.packbits(np.hstack(bits).astype(np.uint8), axis=1)]


def content_hash(key: bytes, messages: Sequence[bytes], rows: Sequence[bytes]) -> bytes:
    """The keyed hash of a multiset of people and their rows, 64 bytes."""
    total = 0
    for message, row in zip(messages, rows, strict=True):
        digest = hashlib.blake2b(row + message, key=key, digest_size=_BLOCK).digest()
        total += int.from_bytes(digest, "little")
    return (total % (1 << 8 * _BLOCK)).to_bytes(_BLOCK, "little")


def zero_shares(pairs: Sequence[bytes], messages: Sequence[bytes], target: int) -> list[bytes]:
    """A holder's shares of zero for a target, by its keys with others; 16 bytes per person."""
    block, place = divmod(16 * target, _BLOCK)
    shares = []
    for message in messages:
        total = 0
        for key in pairs:
            digest = _block(key, b"opboost-pair", block, message)
            total ^= int.from_bytes(digest[place : place + 16], "big")
        shares.append(total.to_bytes(16, "big"))
    return shares


def seal_table(
    secret: bytes, name: str, place: str, body: bytes, people: Sequence[bytes], rows: list[bytes]
) -> tuple[bytes, list[bytes]]:
    """The nonce of a sealed table, and its sorted entries.

    ``name`` is the artifact's kind, with ``-z`` if there are shares of zero; ``place`` the plan's
    run and digest; ``body`` the exponent's seed and the content hash. A person is the point, the
    share of zero and the message.
    """
    content = hashlib.blake2b(body, digest_size=32).hexdigest()
    length = _TAG_BYTES + len(rows[0])
    blocks = range(-(-length // _BLOCK))
    for attempt in range(_ATTEMPTS):
        kind = name.removesuffix("-z")
        nonce = derive_key(secret, f"seal:{kind}:{place}:{content}:{attempt}")
        entries = []
        for person, row in zip(people, rows, strict=True):
            title = f"opboost-{name}".encode()
            stream = b"".join([_block(nonce, title, number, person) for number in blocks])
            pad = int.from_bytes(stream[:length], "big")
            entries.append((pad ^ int.from_bytes(row, "big")).to_bytes(length, "big"))
        entries.sort()
        if len({entry[:_TAG_BYTES] for entry in entries}) == len(entries):
            return nonce, entries
    raise ValueError("two people have the same tag")


def _block(key: bytes, person: bytes, counter: int, message: bytes) -> bytes:
    text = bytes([counter]) + message
    return hashlib.blake2b(text, digest_size=_BLOCK, key=key, person=person).digest()


def to_files(entries: Sequence[bytes]) -> dict[str, bytes]:
    """Entries as files; many are divided by their first bits into a power of two of files."""
    bits = min((max(len(entries) - 1, 0) // _PART).bit_length(), 12)
    if not bits:
        return {"entries.bin": b"".join(entries)}
    parts: dict[str, list[bytes]] = {f"entries-{i:04}.bin": [] for i in range(1 << bits)}
    for entry in entries:
        parts[f"entries-{int.from_bytes(entry[:2], 'big') >> 16 - bits:04}.bin"].append(entry)
    return {name: b"".join(part) for name, part in parts.items()}


def multiply_points(exponent: bytes, points: bytes) -> Iterator[bytes]:
    """Multiply each point of 32 bytes by an exponent."""
    key = X25519PrivateKey.from_private_bytes(exponent)
    for at in range(0, len(points), 32):
        yield key.exchange(X25519PublicKey.from_public_bytes(points[at : at + 32]))


def encrypt_files(
    secret: bytes, receiver: str, artifact: Artifact, files: Mapping[str, bytes]
) -> Iterator[tuple[str, bytes]]:
    """Encrypt an artifact's files to a receiver as its publisher does, which is deterministic."""
    public, manifest = base64.b64decode(receiver), artifact.manifest
    for name, content in files.items():
        place = f"{artifact.place}/{name}".encode()
        salt = derive_key(secret, b"salt:" + public + place)
        raw = salt + len(content).to_bytes(_LENGTH, "little") + content
        size = padded_size(len(content), manifest["rows"], len(manifest["columns"]))
        about = f"{artifact.digest}/{name}".encode()
        derived = derive_key(secret, b"envelope:" + public + about, _KEY + _ENVELOPE_NONCE)
        ephemeral = X25519PrivateKey.from_private_bytes(derived[:_KEY])
        sender, nonce = ephemeral.public_key().public_bytes_raw(), derived[_KEY:]
        shared = ephemeral.exchange(X25519PublicKey.from_public_bytes(public))
        key = derive_key(shared, b"file:" + sender + public + about)
        yield name, sender + nonce + AESGCM(key).encrypt(nonce, raw.ljust(size, b"\0"), about)


def decrypt_file(raw: bytes, key: bytes, digest: str, name: str) -> bytes:
    """Decrypt an artifact's file, leaving its salt; ValueError if it is to another key."""
    private, about = X25519PrivateKey.from_private_bytes(key), f"{digest}/{name}".encode()
    sender, nonce = raw[:_KEY], raw[_KEY : _KEY + _ENVELOPE_NONCE]
    shared = private.exchange(X25519PublicKey.from_public_bytes(sender))
    public = private.public_key().public_bytes_raw()
    file_key = derive_key(shared, b"file:" + sender + public + about)
    return AESGCM(file_key).decrypt(nonce, raw[_KEY + _ENVELOPE_NONCE :], about)


def key_pair(path: Path) -> tuple[bytes, str]:
    """The private key in a file, and its public key in base64."""
    private = base64.b64decode(path.read_text().strip(), validate=True)
    public = X25519PrivateKey.from_private_bytes(private).public_key().public_bytes_raw()
    return private, base64.b64encode(public).decode()


def derive_key(secret: bytes, purpose: str | bytes, length: int = 32) -> bytes:
    """Derive a key for one purpose, by HKDF."""
    info = b"opboost:" + (purpose.encode() if isinstance(purpose, str) else purpose)
    return HKDF(algorithm=SHA256(), length=length, salt=None, info=info).derive(secret)
