"""IDs as messages of the oblivious PRF: typed, and in canonical form.

If two tables wrote the same person in two ways, the person would silently not match. Therefore IDs
that are not in canonical form are rejected; the error counts them and shows none.
"""

import hashlib
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Literal

import numpy as np

from opboost_ops.errors import RowsError

#: Bytes of a tag.
TAG = 16

#: A message that every party adds to its own, and that no ID has. If it does not match, the
#: parties' keys or versions differ, whichever IDs they have in common.
CANARY = b"c"

_Check = Callable[[str], bool]
_STRINGS: Mapping[str, _Check] = {
    "are empty": lambda value: not value,
    "begin or end with a blank": lambda value: value != value.strip(),
    "hold half of a surrogate pair": lambda value: any("\ud800" <= c <= "\udfff" for c in value),
    "are not in Unicode's form NFC": lambda value: not unicodedata.is_normalized("NFC", value),
}

#: ASCII whitespace, which `strip` removes.
_BLANKS = bytes(i for i in range(128) if chr(i).isspace())


class IdEncoder:
    """Encodes IDs as messages, piece by piece, and counts those that are not in canonical form.

    Args:
        id_type: Declared type of the IDs.
    """

    def __init__(self, id_type: Literal["string", "integer"]) -> None:
        self._type = id_type
        self._faults: Counter[str] = Counter()

    def messages(self, ids: Iterable[object]) -> list[bytes]:
        """Return one message per row: ``s`` and UTF-8 text, or ``i`` and a decimal number.

        Args:
            ids: One ID per row.
        """
        values = list(ids)
        expected = str if self._type == "string" else int
        if set(map(type, values)) - {expected}:
            # Compare exact types, because a bool is an int.
            others = [value for value in values if type(value) is not expected]
            missing = sum(value is None for value in others)
            self._faults["are missing"] += missing
            self._faults[f"are not of type {self._type}"] += len(others) - missing
        if self._type == "integer":
            return [b"i%d" % value for value in values if type(value) is int]
        texts = [value for value in values if type(value) is str]
        if len(texts) == len(values) and (plain := _plain_messages(texts)):
            return plain
        odd = [v for v in texts if not v.isascii() or v != v.strip() or not v]
        for what, check in _STRINGS.items() if odd else ():
            self._faults[what] += sum(map(check, odd))
        return [b"s" + v.encode(errors="replace") for v in texts]

    def require_canonical(self) -> None:
        """Reject IDs that are not in canonical form.

        Raises:
            RowsError: Lists all faults of all pieces, with counts.
        """
        faults = +self._faults
        if faults:
            raise RowsError(
                "Of the IDs, " + ", ".join(f"{n:,} {what}" for what, n in faults.items()) + ".",
                "Write every ID in one form, the same in all parties' tables.",
            )


def _plain_messages(texts: list[str]) -> list[bytes]:
    """Return the messages of ASCII texts without whitespace; an empty list if a text differs."""
    joined = "\ns".join(texts)
    if not (joined.isascii() and all(texts)):
        return []
    raw = b"s" + joined.encode()
    blanks = len(raw) - len(raw.translate(None, _BLANKS))
    return raw.split(b"\n") if blanks == len(texts) - 1 else []


def messages(ids: Iterable[object], id_type: Literal["string", "integer"]) -> list[bytes]:
    """Return the messages of all IDs of a table that fits into memory.

    Args:
        ids: One ID per row.
        id_type: Declared type of the IDs.

    Raises:
        RowsError: An ID is missing, repeated, of another type, or not in canonical form.
    """
    encoder = IdEncoder(id_type)
    encoded = encoder.messages(ids)
    encoder.require_canonical()
    repeated = len(encoded) - len(set(encoded))
    if repeated:
        raise repeated_ids(repeated)
    return encoded


def repeated_ids(rows: int) -> RowsError:
    """Return the error for rows that repeat the ID of another row.

    Args:
        rows: Number of such rows.
    """
    return RowsError(
        f"{rows:,} rows have an ID that another row has, too.", "Give every person one row."
    )


def rows_of(raw: bytes | bytearray, width: int) -> np.ndarray:
    """Split bytes into rows, uint8, shape (n, width)."""
    return np.frombuffer(raw, dtype=np.uint8).reshape(-1, width)


def pieces_of(rows: np.ndarray) -> list[bytes]:
    """Return the bytes of each row; the inverse of `rows_of` for uint8, shape (n, width)."""
    pieces: list[bytes] = np.ascontiguousarray(rows).view(f"V{rows.shape[1]}").ravel().tolist()
    return pieces


def hash_each(start: hashlib.blake2b, messages: Iterable[bytes]) -> np.ndarray:
    """Hash many messages with a common prefix; uint8, shape (n, digest size).

    Args:
        start: A hash of the prefix.
        messages: The messages without the prefix.
    """
    copy, digests = start.copy, bytearray()
    for message in messages:
        digest = copy()
        digest.update(message)
        # Append to one array: a list of digests would not stay in the processor's caches.
        digests += digest.digest()
    return rows_of(digests, start.digest_size)


def sort_order(keys: np.ndarray) -> np.ndarray:
    """Return the permutation that sorts keys by their bytes.

    Args:
        keys: uint8, shape (n, width), width a multiple of 8; all distinct.

    Returns:
        int64, shape (n,).
    """
    words = np.ascontiguousarray(keys).view(">u8")
    order = np.argsort(words[:, 0].astype(np.uint64))
    first = words[order, 0]
    if (first[1:] == first[:-1]).any():
        return np.lexsort(tuple(words.T[::-1]))
    return order


def strictly_increasing(keys: np.ndarray) -> bool:
    """Return True if keys are sorted by their bytes, and none is repeated.

    Args:
        keys: uint8, shape (n, width), width a multiple of 8.
    """
    words = np.ascontiguousarray(keys).view(">u8").astype(np.uint64)
    less = np.zeros(max(len(words) - 1, 0), dtype=bool)
    for column in words.T[::-1]:
        less = (column[:-1] < column[1:]) | ((column[:-1] == column[1:]) & less)
    return bool(less.all())


def positions_in(sorted_keys: np.ndarray, wanted: np.ndarray) -> np.ndarray:
    """Return the positions of keys in a sorted list of keys.

    Args:
        sorted_keys: uint8, shape (n, 16), strictly increasing.
        wanted: uint8, shape (m, 16).

    Returns:
        int64, shape (m,); -1 for keys that are not in the list.
    """
    if not len(sorted_keys) or not len(wanted):
        return np.full(len(wanted), -1, dtype=np.int64)
    words = np.ascontiguousarray(sorted_keys).view(">u8").astype(np.uint64)
    want = np.ascontiguousarray(wanted).view(">u8").astype(np.uint64)
    # Sorted look-ups read memory in order, with fewer cache misses.
    order = np.argsort(want[:, 0])
    positions = np.full(len(want), -1, dtype=np.int64)
    at = np.searchsorted(words[:, 0], want[order, 0])
    unresolved = np.ones(len(want), dtype=bool)
    while True:
        # Step through keys with the same first half; random keys have different ones.
        inside = at < len(words)
        spot = np.minimum(at, len(words) - 1)
        same = unresolved & inside & (words[spot, 0] == want[order, 0])
        if not same.any():
            return positions
        hit = same & (words[spot, 1] == want[order, 1])
        positions[order[hit]] = spot[hit]
        unresolved = same & ~hit
        at = at + 1
