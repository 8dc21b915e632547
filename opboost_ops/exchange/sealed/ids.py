"""IDs as messages of the oblivious PRF: typed, and in one form only.

Two tables that write one person in two ways would not find each other, silently; so every ID that
could be written otherwise is refused, with the number of such rows and never an ID.
"""

import hashlib
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Literal

import numpy as np

from opboost_ops.errors import ContractError

#: Bytes of a tag.
TAG = 16

#: A message that every party adds to its own, and that is no ID: only where it is found do keys
#: and versions agree, whichever IDs are common.
CANARY = b"c"

_Check = Callable[[str], bool]
_STRINGS: Mapping[str, _Check] = {
    "are empty": lambda value: not value,
    "begin or end with a blank": lambda value: value != value.strip(),
    "hold half of a surrogate pair": lambda value: any("\ud800" <= c <= "\udfff" for c in value),
    "are not in Unicode's form NFC": lambda value: not unicodedata.is_normalized("NFC", value),
}

#: Every blank of ASCII, which "strip" takes away.
_BLANKS = bytes(i for i in range(128) if chr(i).isspace())


class Reader:
    """Makes messages of IDs, piece by piece, and counts those that could be written otherwise.

    Args:
        id_type: Their declared type.
    """

    def __init__(self, id_type: Literal["string", "integer"]) -> None:
        self._type = id_type
        self._faults: Counter[str] = Counter()

    def messages(self, ids: Iterable[object]) -> list[bytes]:
        """One message per row: ``s`` and the text in UTF-8, or ``i`` and the number in decimal.

        Args:
            ids: One a row.
        """
        values = list(ids)
        expected = str if self._type == "string" else int
        if set(map(type, values)) - {expected}:
            # By the exact type: a bool is an int, too.
            others = [value for value in values if type(value) is not expected]
            missing = sum(value is None for value in others)
            self._faults["are missing"] += missing
            self._faults[f"are no {self._type}"] += len(others) - missing
        if self._type == "integer":
            return [b"i%d" % value for value in values if type(value) is int]
        texts = [value for value in values if type(value) is str]
        if len(texts) == len(values) and (plain := _plain_messages(texts)):
            return plain
        odd = [v for v in texts if not v.isascii() or v != v.strip() or not v]
        for what, check in _STRINGS.items() if odd else ():
            self._faults[what] += sum(map(check, odd))
        return [b"s" + v.encode(errors="replace") for v in texts]

    def require_one_form(self) -> None:
        """Refuse IDs that could be written otherwise.

        Raises:
            ContractError: All faults of all pieces at once, with counts.
        """
        faults = +self._faults
        if faults:
            raise ContractError(
                "Of the IDs, " + ", ".join(f"{n:,} {what}" for what, n in faults.items()) + ".",
                "Write every ID in one form, the same in all parties' tables.",
            )


def _plain_messages(texts: list[str]) -> list[bytes]:
    """Messages of texts of ASCII without blanks, which most are; none where one is another."""
    joined = "\ns".join(texts)
    if not (joined.isascii() and all(texts)):
        return []
    raw = b"s" + joined.encode()
    blanks = len(raw) - len(raw.translate(None, _BLANKS))
    return raw.split(b"\n") if blanks == len(texts) - 1 else []


def messages(ids: Iterable[object], id_type: Literal["string", "integer"]) -> list[bytes]:
    """The messages of all IDs of a table that fits into memory.

    Args:
        ids: One a row.
        id_type: Their declared type.

    Raises:
        ContractError: An ID is missing, of another type, there twice, or could be written
            otherwise.
    """
    reader = Reader(id_type)
    encoded = reader.messages(ids)
    reader.require_one_form()
    repeated = len(encoded) - len(set(encoded))
    if repeated:
        raise repeated_ids(repeated)
    return encoded


def repeated_ids(rows: int) -> ContractError:
    """The error for rows that have an ID of another row.

    Args:
        rows: How many.
    """
    return ContractError(
        f"{rows:,} rows have an ID that another row has, too.", "Give every person one row."
    )


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
