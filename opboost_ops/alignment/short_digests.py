"""Keyed digests as they travel: the first 80 bits of each, and a bit a row back.

80 bits are enough to find people: of two tables of a hundred million people each, two different
ones have one short digest in common with probability 10^-8. Two of one table would be told apart
by nobody but their own party, which refuses them before anything leaves.

    >>> import numpy as np
    >>> found, held = np.array([True, False, True]), np.array([False, True])
    >>> [[each.tolist() for each in some] for some in unmarked(marks(found, held), 3, 2)]
    [[[0, 2], [False, True]]]
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator

import numpy as np

from opboost_ops.errors import ContractError
from opboost_ops.scratch.arrays import let_go

#: Bytes of a digest that travel.
SHORT = 10

#: Rows at a time.
_BLOCK = 131_072


def require_distinct(digests: np.ndarray, party: str) -> None:
    """Refuse digests that are the same, or would be on their way.

    Args:
        digests: uint8, shape (n, 16), rising; they may be mapped.
        party: Whose they are, for the error.

    Raises:
        ContractError: Two of them agree, or would agree on their way.
    """
    for begin in range(0, len(digests), _BLOCK):
        block = digests[begin : begin + _BLOCK + 1]
        same = np.flatnonzero((block[1:, :SHORT] == block[:-1, :SHORT]).all(axis=1))
        if not len(same):
            continue
        if (block[same] == block[same + 1]).all(axis=1).any():
            raise ContractError(
                f"An ID is there twice in the table of {party}.", "Give every person one row."
            )
        raise ContractError(
            f"The digests of two IDs of {party} agree in the {8 * SHORT} bits that travel.",
            "Make another alignment key (`opboost keys init --alignment`) and give it to all "
            "parties; other people are held out then. `alignment: private` knows no such case.",
        )


def rising(short: np.ndarray) -> bool:
    """Whether short digests rise, and none comes twice.

    Args:
        short: uint8, shape (n, 10).
    """
    first, rest = _halves(short)
    less = (first[:-1] < first[1:]) | ((first[:-1] == first[1:]) & (rest[:-1] < rest[1:]))
    return bool(less.all())


def places_in(parts: Iterable[np.ndarray], digests: np.ndarray) -> Iterator[tuple[int, np.ndarray]]:
    """Where digests stand in a list of short ones that comes in parts, a block at a time.

    Args:
        parts: uint8, shape (k, 10) each, rising from the first to the last.
        digests: uint8, shape (m, 16), rising; they may be mapped.

    Yields:
        Where a block of the digests begins, and its places, int64; -1 for one that is not there.
        Those that no block has are not there.
    """
    end = before = 0
    for part in parts:
        if not len(part):
            continue
        last = part[-1].tobytes()
        begin = end
        end = bisect_right(digests, last, begin, key=lambda row: row[:SHORT].tobytes())
        for at in range(begin, end, _BLOCK):
            wanted = digests[at : min(at + _BLOCK, end), :SHORT]
            span = [
                bisect_left(part, row.tobytes(), key=np.ndarray.tobytes) for row in wanted[[0, -1]]
            ]
            found = places(part[span[0] : span[1] + 1], wanted)
            yield at, np.where(found >= 0, found + before + span[0], -1)
        before += len(part)


def places(short: np.ndarray, wanted: np.ndarray) -> np.ndarray:
    """Where short digests stand in a list of them.

    Args:
        short: uint8, shape (n, 10), rising.
        wanted: uint8, shape (m, 10), rising.

    Returns:
        int64, shape (m,); -1 for one that is not there.
    """
    found = np.full(len(wanted), -1, dtype=np.int64)
    if not len(short):
        return found
    (first, rest), (first_wanted, rest_wanted) = _halves(short), _halves(wanted)
    at = np.searchsorted(first, first_wanted)
    last = len(short) - 1
    while True:
        # Those that share their first 64 bits stand side by side, which by chance few do.
        spot = np.minimum(at, last)
        same = (at <= last) & (first[spot] == first_wanted)
        hit = same & (rest[spot] == rest_wanted)
        found[hit] = spot[hit]
        if not (same & (rest[spot] < rest_wanted)).any():
            return found
        at = np.where(same & (rest[spot] < rest_wanted), at + 1, at)


def marks(found: np.ndarray, held: np.ndarray) -> np.ndarray:
    """A bit a row of a list of digests, and a bit for each that is common.

    Args:
        found: Whether a row of the list is common, bool, shape (n,); it may be mapped.
        held: Whether a common one is held out, bool, shape (c,); likewise.

    Returns:
        uint8, shape (k, 1).
    """
    packed = [np.empty(0, dtype=np.uint8)]
    for bits in (found, held):
        for begin in range(0, len(bits), _BLOCK):
            packed.append(np.packbits(bits[begin : begin + _BLOCK]))
            let_go()
    return np.concatenate(packed).reshape(-1, 1)


def marks_size(rows: int, common: int) -> int:
    """How many bytes marks have.

    Args:
        rows: Of the list.
        common: How many of them are common.
    """
    return -(-rows // 8) + -(-common // 8)


def unmarked(raw: np.ndarray, rows: int, common: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """What marks say, a block of the list's rows at a time.

    Args:
        raw: uint8, shape (k, 1).
        rows: Of the list.
        common: How many of them are common.

    Yields:
        The common places, rising, int64, shape (c,), and whether each is held out, bool.

    Raises:
        ValueError: They are of another number of rows.
    """
    flat, cut = raw.ravel(), -(-rows // 8)
    bits, held = flat[:cut], flat[cut:]
    # The last bytes are filled up with zeros: marks have one form alone.
    if len(flat) != marks_size(rows, common) or int(np.bitwise_count(bits).sum()) != common:
        raise ValueError("marks of another number of rows")
    if _past(bits, rows) or _past(held, common):
        raise ValueError("marks of more rows than there are")
    end = 0
    for begin in range(0, rows, _BLOCK):
        part = np.unpackbits(bits[begin // 8 : (begin + _BLOCK) // 8])
        places = np.flatnonzero(part) + begin
        first, end = end, end + len(places)
        there = np.unpackbits(held[first // 8 : -(-end // 8)])[first % 8 :][: len(places)]
        yield places, there.astype(bool)


def _past(packed: np.ndarray, bits: int) -> bool:
    """Whether any bit behind the last is set."""
    return bool(len(packed) and np.unpackbits(packed[-1:])[(bits - 1) % 8 + 1 :].any())


def _halves(short: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The first 64 bits and the last 16, as numbers that have the order of the bytes."""
    pairs = np.ascontiguousarray(short).view([("first", ">u8"), ("rest", ">u2")]).ravel()
    return pairs["first"].astype(np.uint64), pairs["rest"].astype(np.uint16)
