"""Sealed rows and encrypted files made again: from pins, the month's points, and a party's keys.

A row is 10 bytes of tag and the packed codes under a pad; tag and pad are BLAKE2b, under the
artifact's public nonce, of a counter, the person's point, the person's zero sharing and the ID.
"""

import base64
import hashlib
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from pathlib import Path

import numpy as np
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.cmac import CMAC
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from opboost_ops.verifier.places import Artifact
from opboost_ops.verifier.plans import Column, padded

_TAG, _BLOCK, _ATTEMPTS, _PART = 10, 64, 16, 1 << 20
_MAGIC, _NONCE, _PERSON = b"opboost pins 1\n\n", 16, 16

#: The message of no ID, which every table has besides its people.
CANARY = b"c"

_KEY, _ENVELOPE_NONCE, _SALT, _LENGTH = 32, 12, 32, 8


def messages_of(ids: Sequence[str | int]) -> list[bytes]:
    """A message per ID: its type and its text or decimal digits."""
    return [b"i%d" % i if isinstance(i, int) else b"s" + str(i).encode() for i in ids]


@lru_cache(maxsize=1)
def person_hashes(key: bytes, ids: tuple[str | int, ...]) -> list[bytes]:
    """Keyed hashes of IDs, which are texts or integers; pins and the forgotten have them."""
    messages = [
        b"s" + i.encode() if isinstance(i, str) else b"i" + i.to_bytes(15, "little", signed=True)
        for i in ids
    ]
    return cmacs(keyed_by(key, "id"), messages)


def cmacs(key: bytes, messages: Sequence[bytes]) -> list[bytes]:
    """AES-CMAC of messages, 16 bytes each."""
    hashes, cipher = [], algorithms.AES(key)
    for message in messages:
        mac = CMAC(cipher)
        mac.update(message)
        hashes.append(mac.finalize())
    return hashes


def pin_digest(secret: bytes, content: bytes) -> str:
    """The digest by which a database points to a pin file."""
    key = keyed_by(secret, "pins")
    return hashlib.blake2b(content, digest_size=32, key=key).hexdigest()


def read_pins(
    secret: bytes, content: bytes, rows: int, columns: Sequence[Column]
) -> tuple[dict[bytes, int], dict[str, np.ndarray]]:
    """The pins in a file of a feature: the row of each person, and the responses by column."""
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


def packed(codes: Sequence[np.ndarray], sizes: Sequence[int]) -> list[bytes]:
    """Rows of codes by column, each in as many bits as its size needs, the first one first."""
    bits = [
        code[:, np.newaxis] >> np.arange(size.bit_length())[::-1] & 1
        for code, size in zip(codes, sizes, strict=True)
    ]
    return [row.tobytes() for row in np.packbits(np.hstack(bits).astype(np.uint8), axis=1)]


def content_hash(key: bytes, messages: Sequence[bytes], rows: Sequence[bytes]) -> bytes:
    """A keyed hash of a multiset of people and their rows, 64 bytes."""
    total = 0
    for message, row in zip(messages, rows, strict=True):
        digest = hashlib.blake2b(row + message, key=key, digest_size=_BLOCK).digest()
        total += int.from_bytes(digest, "little")
    return (total % (1 << 8 * _BLOCK)).to_bytes(_BLOCK, "little")


def sharings(pairs: Sequence[bytes], messages: Sequence[bytes], target: int) -> list[bytes]:
    """A holder's shares of zero for a target, by its number; 16 bytes per person.

    Its keys with each other holder in the run are given, and the people's messages.
    """
    block, place = divmod(16 * target, _BLOCK)
    shares = []
    for message in messages:
        total = 0
        for key in pairs:
            digest = _block(key, b"opboost-pair", block, message)
            total ^= int.from_bytes(digest[place : place + 16], "big")
        shares.append(total.to_bytes(16, "big"))
    return shares


def sealed(
    secret: bytes, name: str, place: str, body: bytes, people: Sequence[bytes], rows: list[bytes]
) -> tuple[bytes, list[bytes]]:
    """The nonce of a sealed table and its entries, sorted.

    Its name is that of its kind, with ``-z`` where there are shares; its place the run's and the
    plan's digest; its body exponent and content hash. A person is point, zero sharing and message.
    """
    content = hashlib.blake2b(body, digest_size=32).hexdigest()
    length = _TAG + len(rows[0])
    blocks = range(-(-length // _BLOCK))
    for attempt in range(_ATTEMPTS):
        kind = name.removesuffix("-z")
        nonce = keyed_by(secret, f"seal:{kind}:{place}:{content}:{attempt}")
        entries = []
        for person, row in zip(people, rows, strict=True):
            title = f"opboost-{name}".encode()
            stream = b"".join([_block(nonce, title, number, person) for number in blocks])
            pad = int.from_bytes(stream[:length], "big")
            entries.append((pad ^ int.from_bytes(row, "big")).to_bytes(length, "big"))
        entries.sort()
        if len({entry[:_TAG] for entry in entries}) == len(entries):
            return nonce, entries
    raise ValueError("two people have one tag")


def _block(key: bytes, person: bytes, counter: int, message: bytes) -> bytes:
    text = bytes([counter]) + message
    return hashlib.blake2b(text, digest_size=_BLOCK, key=key, person=person).digest()


def parts(entries: Sequence[bytes]) -> dict[str, bytes]:
    """Entries as files: cut by their first bits into a power of two of parts if they are many."""
    bits = min((max(len(entries) - 1, 0) // _PART).bit_length(), 12)
    if not bits:
        return {"entries.bin": b"".join(entries)}
    cut: dict[str, list[bytes]] = {f"entries-{i:04}.bin": [] for i in range(1 << bits)}
    for entry in entries:
        cut[f"entries-{int.from_bytes(entry[:2], 'big') >> 16 - bits:04}.bin"].append(entry)
    return {name: b"".join(part) for name, part in cut.items()}


def multiplied(exponent: bytes, points: bytes) -> Iterator[bytes]:
    """Each point of 32 bytes multiplied by an exponent."""
    key = X25519PrivateKey.from_private_bytes(exponent)
    for at in range(0, len(points), 32):
        yield key.exchange(X25519PublicKey.from_public_bytes(points[at : at + 32]))


def encrypted(
    secret: bytes, receiver: str, artifact: Artifact, files: Mapping[str, bytes]
) -> Iterator[tuple[str, bytes]]:
    """The files of an artifact as its publisher stores them for a receiver, also at a retry."""
    public, manifest = base64.b64decode(receiver), artifact.manifest
    for name, content in files.items():
        place = f"{artifact.place}/{name}".encode()
        salt = keyed_by(secret, b"salt:" + public + place)
        raw = salt + len(content).to_bytes(_LENGTH, "little") + content
        size = padded(len(content), manifest["rows"], len(manifest["columns"]))
        about = f"{artifact.digest}/{name}".encode()
        drawn = keyed_by(secret, b"envelope:" + public + about, _KEY + _ENVELOPE_NONCE)
        ephemeral = X25519PrivateKey.from_private_bytes(drawn[:_KEY])
        sender, nonce = ephemeral.public_key().public_bytes_raw(), drawn[_KEY:]
        shared = ephemeral.exchange(X25519PublicKey.from_public_bytes(public))
        key = keyed_by(shared, b"file:" + sender + public + about)
        yield name, sender + nonce + AESGCM(key).encrypt(nonce, raw.ljust(size, b"\0"), about)


def decrypted(raw: bytes, key: bytes, digest: str, name: str) -> bytes:
    """A file of an artifact by the receiver's private key, with its salt; or ValueError."""
    private, about = X25519PrivateKey.from_private_bytes(key), f"{digest}/{name}".encode()
    sender, nonce = raw[:_KEY], raw[_KEY : _KEY + _ENVELOPE_NONCE]
    shared = private.exchange(X25519PublicKey.from_public_bytes(sender))
    public = private.public_key().public_bytes_raw()
    file_key = keyed_by(shared, b"file:" + sender + public + about)
    try:
        return AESGCM(file_key).decrypt(nonce, raw[_KEY + _ENVELOPE_NONCE :], about)
    except InvalidTag:
        raise ValueError("not encrypted to this key") from None


def unsalted(raw: bytes) -> bytes:
    """The content of a decrypted file."""
    begin = _SALT + _LENGTH
    return raw[begin : begin + int.from_bytes(raw[_SALT:begin], "little")]


def key_pair(path: Path) -> tuple[bytes, str]:
    """An encryption key in a file: its private half, and the public one in base64."""
    private = base64.b64decode(path.read_text().strip(), validate=True)
    public = X25519PrivateKey.from_private_bytes(private).public_key().public_bytes_raw()
    return private, base64.b64encode(public).decode()


def keyed_by(secret: bytes, purpose: str | bytes, length: int = 32) -> bytes:
    """A key for one purpose."""
    info = b"opboost:" + (purpose.encode() if isinstance(purpose, str) else purpose)
    return HKDF(algorithm=SHA256(), length=length, salt=None, info=info).derive(secret)
