"""Sealed rows made again: from pins, the month's points, and the party's secret.

A row is 10 bytes of tag and the packed codes under a pad; tag and pad are BLAKE2b, under the
artifact's public nonce, of a counter, the person's point, the person's zero sharing and the ID.
"""

import hashlib
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from cryptography.hazmat.primitives.cmac import CMAC

from opboost_ops.verifier.envelopes import keyed_by
from opboost_ops.verifier.plans import Column

_TAG, _BLOCK, _ATTEMPTS = 10, 64, 16
_MAGIC, _NONCE, _PERSON = b"opboost pins 1\n\n", 16, 16

#: The message of no ID, which every table has besides its people.
CANARY = b"c"


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
