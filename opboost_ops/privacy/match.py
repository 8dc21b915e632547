"""Who is where: known people beside those of a draw, compared once for all of its columns."""

from dataclasses import dataclass

import numpy as np

from opboost_ops.scratch import arrays
from opboost_ops.scratch.arrays import Scratch, release_memory, slices


@dataclass(frozen=True)
class Union:
    """Known people and others together, as it is for all columns that have the same.

    Attributes:
        known: Keyed hashes, uint64, rising, shape (n,).
        more: Likewise, shape (m,).
        people: All of them, rising; `known` itself where it has them all.
        old: Where the known are, shape (n,); None where they are all.
        new: Where the others are, shape (m,); None where they are all.
    """

    known: np.ndarray
    more: np.ndarray
    people: np.ndarray
    old: np.ndarray | None
    new: np.ndarray | None


@dataclass(frozen=True)
class Matches:
    """Where wanted people are among those that are known, likewise.

    Attributes:
        known: Keyed hashes, uint64, rising, shape (n,).
        wanted: Likewise, shape (m,).
        place: Where each of the wanted is, shape (m,); None where they are the very same people.
        there: Whether it is there at all, shape (m,); None where all are.
    """

    known: np.ndarray
    wanted: np.ndarray
    place: np.ndarray | None
    there: np.ndarray | None


class Match:
    """Compares people, and keeps the last comparison for the next column.

    Args:
        scratch: Where it is, if they are more than it holds.
    """

    def __init__(self, scratch: Scratch) -> None:
        self._scratch = scratch
        self._union: Union | None = None
        self._found: Matches | None = None

    def union(self, known: np.ndarray, more: np.ndarray) -> Union:
        """Two people's union.

        Args:
            known: Keyed hashes, uint64, rising, shape (n,).
            more: Likewise, shape (m,).
        """
        union = self._union
        if union is None or union.known is not known or union.more is not more:
            union = self._union = _united(self._scratch, known, more)
        return union

    def found(self, known: np.ndarray, wanted: np.ndarray) -> Matches:
        """Where some people are among others.

        Args:
            known: Keyed hashes, uint64, rising, shape (n,); not empty.
            wanted: Likewise, shape (m,).
        """
        found = self._found
        if found is None or found.known is not known or found.wanted is not wanted:
            found = self._found = _found(self._scratch, known, wanted)
        return found


def _found(scratch: Scratch, known: np.ndarray, wanted: np.ndarray) -> Matches:
    if _same(known, wanted):
        return Matches(known, wanted, None, None)
    place, there = _places(scratch, known, wanted), scratch.zeros(len(wanted), bool)
    for rows in slices(len(wanted)):
        np.minimum(place[rows], len(known) - 1, out=place[rows])
        there[rows] = known[place[rows]] == wanted[rows]
        release_memory()
    return Matches(known, wanted, place, there)


def _united(scratch: Scratch, known: np.ndarray, more: np.ndarray) -> Union:
    if _same(known, more):
        return Union(known, more, known, None, None)
    people = _merged(scratch, known, more)
    if len(people) == len(known):
        people = known
    elif len(people) == len(more):
        people = more
    old = None if people is known else _places(scratch, people, known)
    new = None if people is more else _places(scratch, people, more)
    return Union(known, more, people, old, new)


def _same(some: np.ndarray, others: np.ndarray) -> bool:
    if len(some) != len(others):
        return False
    for rows in slices(len(some)):
        if not np.array_equal(some[rows], others[rows]):
            return False
        release_memory()
    return True


def _merged(scratch: Scratch, known: np.ndarray, more: np.ndarray) -> np.ndarray:
    """People of either, rising, each once."""
    if scratch.holds(len(known) + len(more)):
        return _either(known, more)
    found, end = scratch.zeros(len(known) + len(more), np.uint64), 0
    begins = [0, 0]
    while any(begin < len(people) for begin, people in zip(begins, (known, more), strict=True)):
        heads = [p[b : b + arrays.BLOCK] for b, p in zip(begins, (known, more), strict=True)]
        # Up to here both are at hand.
        limit = min(head[-1] for head in heads if len(head))
        heads = [head[: np.searchsorted(head, limit, "right")] for head in heads]
        begins = [begin + len(head) for begin, head in zip(begins, heads, strict=True)]
        some = _either(*heads)
        if end and found[end - 1] == some[0]:
            some = some[1:]
        begin, end = end, end + len(some)
        found[begin:end] = some
        release_memory()
    return found[:end]


def _either(some: np.ndarray, others: np.ndarray) -> np.ndarray:
    # Both rise, and a stable sort merges rising runs in linear time.
    both = np.sort(np.concatenate([some, others]), kind="stable")
    return both[np.concatenate([[True], both[1:] != both[:-1]])] if len(both) else both


def _places(scratch: Scratch, people: np.ndarray, some: np.ndarray) -> np.ndarray:
    places = scratch.zeros(len(some), np.uint32 if len(people) < 2**32 else np.uint64)
    for rows in slices(len(some)):
        part = some[rows]
        # Both rise: of a mapped file no more is looked at than lies between the ends.
        low, high = np.searchsorted(people, part[[0, -1]])
        places[rows] = np.searchsorted(people[low:high], part) + low
        release_memory()
    return places


def rows_of(place: np.ndarray | None, rows: slice, count: int) -> np.ndarray:
    """Places of a block of rows.

    Args:
        place: Of all rows, shape (n,); None where each is in its own.
        rows: Which.
        count: How many they are.

    Returns:
        int64, shape (count,).
    """
    if place is None:
        return np.arange(rows.start, rows.start + count)
    return place[rows].astype(np.int64)
