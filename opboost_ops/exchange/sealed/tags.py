"""Short keys of people: hashed in batches, and in the order of their bytes."""

import hashlib
from collections.abc import Iterable

import numpy as np

#: Bytes of a tag.
TAG = 16


def rows_of(raw: bytes | bytearray, width: int) -> np.ndarray:
    """Fixed-size bytes one after the other, as uint8 of shape (n, width)."""
    return np.frombuffer(raw, dtype=np.uint8).reshape(-1, width)


def pieces_of(rows: np.ndarray) -> list[bytes]:
    """The bytes of each row of uint8 of shape (n, width), the inverse of `rows_of`."""
    pieces: list[bytes] = np.ascontiguousarray(rows).view(f"V{rows.shape[1]}").ravel().tolist()
    return pieces


def hashed(start: hashlib.blake2b, messages: Iterable[bytes]) -> np.ndarray:
    """Hashes of many messages that begin alike, uint8, shape (n, digest size).

    Args:
        start: A hash that was given what comes before each message.
        messages: The rest of each.
    """
    copy, digests = start.copy, bytearray()
    for message in messages:
        digest = copy()
        digest.update(message)
        # Joined at once: a list of them would leave the processor's caches.
        digests += digest.digest()
    return rows_of(digests, start.digest_size)


def sorting(keys: np.ndarray) -> np.ndarray:
    """The permutation that puts keys into the order of their bytes.

    Args:
        keys: uint8, shape (n, width), width a multiple of 8; all different.

    Returns:
        int64, shape (n,).
    """
    words = np.ascontiguousarray(keys).view(">u8")
    order = np.argsort(words[:, 0].astype(np.uint64))
    first = words[order, 0]
    if (first[1:] == first[:-1]).any():
        return np.lexsort(tuple(words.T[::-1]))
    return order


def strictly_rising(keys: np.ndarray) -> bool:
    """True if keys are in the order of their bytes, and none comes twice.

    Args:
        keys: uint8, shape (n, width), width a multiple of 8.
    """
    words = np.ascontiguousarray(keys).view(">u8").astype(np.uint64)
    less = np.zeros(max(len(words) - 1, 0), dtype=bool)
    for column in words.T[::-1]:
        less = (column[:-1] < column[1:]) | ((column[:-1] == column[1:]) & less)
    return bool(less.all())


def positions_in(sorted_keys: np.ndarray, wanted: np.ndarray) -> np.ndarray:
    """Where keys stand in a sorted list of keys.

    Args:
        sorted_keys: uint8, shape (n, 16), strictly rising.
        wanted: uint8, shape (m, 16).

    Returns:
        int64, shape (m,); -1 for a key that is not there.
    """
    if not len(sorted_keys) or not len(wanted):
        return np.full(len(wanted), -1, dtype=np.int64)
    have = np.ascontiguousarray(sorted_keys).view(">u8").astype(np.uint64)
    want = np.ascontiguousarray(wanted).view(">u8").astype(np.uint64)
    # Sorted look-ups walk through memory once; half of all keys would be a miss each otherwise.
    order = np.argsort(want[:, 0])
    positions = np.full(len(want), -1, dtype=np.int64)
    at = np.searchsorted(have[:, 0], want[order, 0])
    open_ = np.ones(len(want), dtype=bool)
    while True:
        # Keys that share their first half stand side by side, which by chance they never do.
        inside = at < len(have)
        spot = np.minimum(at, len(have) - 1)
        same = open_ & inside & (have[spot, 0] == want[order, 0])
        if not same.any():
            return positions
        hit = same & (have[spot, 1] == want[order, 1])
        positions[order[hit]] = spot[hit]
        open_ = same & ~hit
        at = at + 1
