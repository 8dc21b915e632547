"""Masked zero shares in an oblivious key-value store: only who is common to all is told.

Every two feature holders share a key r_ij. What holder j stores for its person y is the XOR over
all other holders i of BLAKE2b(r_ij, y), under a mask that only j's key, or an answer to a query
about y, gives. Over all holders every r_ij comes twice, so for a person whom all of them have the
unmasked values add up to zero, and for any other person to noise: the label holder does not learn
who is common to two of three (after Kolesnikov et al., CCS 2017).

The store is a garbled table of three segments: a key's value is the XOR of one slot in each,
found by peeling. Slots that no key needs come from a keyed stream, so that all of them together
are uniform for whoever lacks the masks. Without the mask a value would be the XOR of three slots
of one table and of three of another, and tables could be joined with each other.
"""

import hashlib
from collections.abc import Mapping, Sequence

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

from opboost_ops.alignment.tags import TAG, rows_of
from opboost_ops.mechanisms.noise import keyed_by

#: Slots a key; peeling succeeds with three segments from 1.23 on, in large tables.
_LOAD = 1.3
#: More slots in each segment, for small tables.
_SPARE = 24

_SEGMENTS = 3

#: Attempts of which all fail once in 2^200 times, and more.
_MOST_SEEDS = 256


def pair_key(shared: bytes, session: str) -> bytes:
    """The key r_ij of two feature holders in one session.

    Args:
        shared: X25519 of their encryption keys, 32 bytes.
        session: Names the session, the same at both.
    """
    return keyed_by(shared, f"psi:share:{session}")


def shares(pairs: Mapping[str, bytes], messages: Sequence[bytes]) -> np.ndarray:
    """A holder's share of zero for every message.

    Args:
        pairs: Its key with each other holder, 32 bytes each.
        messages: Of its people.

    Returns:
        uint8, shape (n, 16).
    """
    total = np.zeros((len(messages), TAG), dtype=np.uint8)
    for key in pairs.values():
        copy = hashlib.blake2b(digest_size=TAG, key=key, person=b"opboost-psi-zero").copy
        made = []
        for message in messages:
            digest = copy()
            digest.update(message)
            made.append(digest.digest())
        total ^= rows_of(b"".join(made), TAG)
    return total


def slots_for(keys: int) -> int:
    """How many slots the table of so many keys has: a function of their number alone."""
    return _SEGMENTS * (-(-int(_LOAD * 1000) * keys // (_SEGMENTS * 1000)) + _SPARE)


def encode(seed: bytes, keys: np.ndarray, values: np.ndarray) -> tuple[np.ndarray, int]:
    """The table that gives each key its value.

    Args:
        seed: The holder's of the session; what is free follows from it.
        keys: uint8, shape (n, 16), all different, looking random to everyone.
        values: uint8, shape (n, 16), likewise.

    Returns:
        The table, uint8, shape (slots, 16), and the number of the hash that it was built with.

    Raises:
        ValueError: A key comes twice.
    """
    wanted = np.ascontiguousarray(values).view(np.uint64).reshape(-1, 2)
    size = slots_for(len(keys))
    for number in range(_MOST_SEEDS):
        places = _places(keys, number, size)
        peeled = _peel(places, size)
        if peeled is None:
            continue
        fill = _stream(keyed_by(seed, "psi:free"), size)
        table = fill.view(np.uint64).reshape(size, 2).copy()
        # Backwards: when a key's own slot is written, its two others are final.
        for rows, own in reversed(peeled):
            three = places[rows]
            total = table[three[:, 0]] ^ table[three[:, 1]] ^ table[three[:, 2]]
            table[own] ^= total ^ wanted[rows]
        return table.view(np.uint8).reshape(size, TAG), number
    raise ValueError("a key comes twice")


def decode(table: np.ndarray, number: int, keys: np.ndarray) -> np.ndarray:
    """What a table says of keys: their values, and noise for a key that it does not hold.

    Args:
        table: uint8, shape (slots, 16).
        number: Of the hash that it was built with.
        keys: uint8, shape (n, 16).

    Returns:
        uint8, shape (n, 16).
    """
    words = np.ascontiguousarray(table).view(np.uint64).reshape(-1, 2)
    places = _places(keys, number, len(words))
    found = words[places[:, 0]] ^ words[places[:, 1]] ^ words[places[:, 2]]
    return np.asarray(found.view(np.uint8).reshape(-1, TAG))


def _places(keys: np.ndarray, number: int, size: int) -> np.ndarray:
    """One slot of each segment for every key, int64, shape (n, 3)."""
    if not len(keys):
        return np.empty((0, _SEGMENTS), dtype=np.int64)
    # AES under a public key: nothing is hidden by it, it only spreads.
    public = hashlib.sha256(b"opboost:psi:slots:%d" % number).digest()[:16]
    encrypt = Cipher(algorithms.AES(public), modes.ECB()).encryptor()  # noqa: S305
    drawn = np.frombuffer(encrypt.update(np.ascontiguousarray(keys).tobytes()), dtype="<u4")
    segment = size // _SEGMENTS
    below = (drawn.reshape(-1, 4)[:, :_SEGMENTS].astype(np.uint64) * np.uint64(segment)) >> 32
    return below.astype(np.int64) + np.arange(_SEGMENTS) * segment


def _peel(places: np.ndarray, size: int) -> list[tuple[np.ndarray, np.ndarray]] | None:
    """Give every key a slot of its own, that no key peeled later uses.

    Round by round: keys that are alone in one of their slots are taken out, all at once. Two of
    one round never stand in each other's slot, for then neither of them would be alone there.

    Returns:
        By round, keys and their slots; None if some keys hold each other fast.
    """
    count = np.bincount(places.ravel(), minlength=size)
    # The XOR of the numbers of the keys in a slot is the number of the one that is left alone.
    inside = np.zeros(size, dtype=np.int64)
    for segment in places.T:
        np.bitwise_xor.at(inside, segment, np.arange(len(places)))
    rounds: list[tuple[np.ndarray, np.ndarray]] = []
    left, alone = len(places), np.flatnonzero(count == 1)
    while left:
        if not len(alone):
            return None
        # A key that is alone in several slots gets one of them.
        rows, first = np.unique(inside[alone], return_index=True)
        rounds.append((rows, alone[first]))
        left -= len(rows)
        for segment in places[rows].T:
            np.subtract.at(count, segment, 1)
            np.bitwise_xor.at(inside, segment, rows)
        touched = np.unique(places[rows].ravel())
        alone = touched[count[touched] == 1]
    return rounds


def _stream(key: bytes, slots: int) -> np.ndarray:
    # A key of its own: the counter begins at 0, and no block comes twice.
    encrypt = Cipher(algorithms.AES(key), modes.CTR(bytes(16))).encryptor()
    return np.frombuffer(encrypt.update(bytes(TAG * slots)), dtype=np.uint8)
