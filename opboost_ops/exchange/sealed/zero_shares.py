"""Zero sharings in an oblivious key-value store: only rows of people whom all holders have open.

Every two of m feature holders share a key s_ij, from which m blocks follow for each person: one
for each target. Z_i[t] is the XOR of block t over all other holders, so over all holders the
blocks of a target come twice, and Z_t[t] is the XOR of the Z_i[t] of all others. Holder i stores
its shares for all targets but itself, under masks that only its key of the month, or an answer to
a query, gives; its share for itself seals its own row. One sharing for all targets would not do:
label holder and one holder together would know a second one's share of everybody, compare it
with what is stored, and read the second one's membership alone (after Kolesnikov et al., CCS 2017).

The store is a garbled table of three segments: a key's value is the XOR of one slot in each,
found by peeling. Slots that no key needs come from a keyed stream, so that all of them together
are uniform for anyone who lacks the masks. Without the mask a value would be the XOR of three slots
of one table and of three of another, and tables could be joined with each other.
"""

import hashlib
from collections.abc import Mapping, Sequence

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

from opboost_ops.exchange.sealed.tags import TAG, hashed
from opboost_ops.mechanisms.noise import Words, keyed_by

#: Slots a key; peeling succeeds with three segments from 1.23 on, in large tables.
_LOAD = 1.3
#: More slots in each segment, for small tables.
_SPARE = 24

_SEGMENTS = 3

#: Bytes of a block of shares: four targets.
_BLOCK = 64

#: Attempts of which all fail once in 2^200 times, and more.
_MOST_SEEDS = 256


def pair_key(shared: bytes, session: str) -> bytes:
    """The key r_ij of two feature holders in one session.

    Args:
        shared: X25519 of their encryption keys, 32 bytes.
        session: Names the session, the same at both.
    """
    return keyed_by(shared, f"psi:share:{session}")


def sharings(pairs: Mapping[str, bytes], messages: Sequence[bytes]) -> np.ndarray:
    """A holder's shares of zero for every message, one for each holder as the target.

    Args:
        pairs: Its key with each other holder, 32 bytes each.
        messages: Of its people.

    Returns:
        uint8, shape (n, m, 16), m one more than the pairs: targets in the order of their names.
    """
    targets = len(pairs) + 1
    width = TAG * targets
    total = np.zeros((len(messages), width), dtype=np.uint8)
    for key in pairs.values():
        for counter, begin in enumerate(range(0, width, _BLOCK)):
            start = hashlib.blake2b(
                bytes([counter]), digest_size=_BLOCK, key=key, person=b"opboost-pair"
            )
            total[:, begin : begin + _BLOCK] ^= hashed(start, messages)[:, : width - begin]
    return total.reshape(len(messages), targets, TAG)


def slots_for(keys: int) -> int:
    """How many slots the table of so many keys has: a function of their number alone."""
    return _SEGMENTS * (-(-int(_LOAD * 1000) * keys // (_SEGMENTS * 1000)) + _SPARE)


def encode(seed: bytes, keys: np.ndarray, values: np.ndarray) -> tuple[np.ndarray, int]:
    """The table that gives each key its value.

    Args:
        seed: The holder's of the session; what is free follows from it.
        keys: uint8, shape (n, 16), all different, looking random to everyone.
        values: uint8, shape (n, width), likewise; width a multiple of 8.

    Returns:
        The table, uint8, shape (slots, width), and the number of the hash that it was built with.

    Raises:
        ValueError: A key comes twice.
    """
    width = values.shape[1]
    wanted = np.ascontiguousarray(values).view(np.uint64).reshape(-1, width // 8)
    size = slots_for(len(keys))
    for number in range(_MOST_SEEDS):
        places = _places(keys, number, size)
        peeled = _peel(places, size)
        if peeled is None:
            continue
        fill = _stream(keyed_by(seed, "psi:free"), size * width)
        table = fill.view(np.uint64).reshape(size, width // 8).copy()
        # Backwards: when a key's own slot is written, its two others are final.
        for rows, own in reversed(peeled):
            three = places[rows]
            total = table[three[:, 0]] ^ table[three[:, 1]] ^ table[three[:, 2]]
            table[own] ^= total ^ wanted[rows]
        return table.view(np.uint8).reshape(size, width), number
    raise ValueError("a key comes twice")


def decode(table: np.ndarray, number: int, keys: np.ndarray) -> np.ndarray:
    """Look up keys in a table: their values, and noise for a key that it does not hold.

    Args:
        table: uint8, shape (slots, width).
        number: Of the hash that it was built with.
        keys: uint8, shape (n, 16).

    Returns:
        uint8, shape (n, width).
    """
    width = table.shape[1]
    words = np.ascontiguousarray(table).view(np.uint64).reshape(-1, width // 8)
    places = _places(keys, number, len(words))
    values = words[places[:, 0]] ^ words[places[:, 1]] ^ words[places[:, 2]]
    return np.asarray(values.view(np.uint8).reshape(-1, width))


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
        # Some twice. In the order of the segments, so that a key gets its lowest slot again.
        touched = places[rows].T.ravel()
        alone = touched[count[touched] == 1]
    return rounds


def _stream(key: bytes, size: int) -> np.ndarray:
    # A key of its own: the counter begins at 0, and no block comes twice.
    return Words(key).take(-(-size // 8)).view(np.uint8)[:size]
