"""Who is where: known people beside those of a draw, compared once for all of its columns."""

from dataclasses import dataclass

import numpy as np

#: Persons at a time.
_BLOCK = 131_072


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
class Found:
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
    """Compares people, and keeps the last comparison for the next column."""

    def __init__(self) -> None:
        self._union: Union | None = None
        self._found: Found | None = None

    def union(self, known: np.ndarray, more: np.ndarray) -> Union:
        """Two people's union.

        Args:
            known: Keyed hashes, uint64, rising, shape (n,).
            more: Likewise, shape (m,).
        """
        union = self._union
        if union is None or union.known is not known or union.more is not more:
            union = self._union = _united(known, more)
        return union

    def found(self, known: np.ndarray, wanted: np.ndarray) -> Found:
        """Where some people are among others.

        Args:
            known: Keyed hashes, uint64, rising, shape (n,); not empty.
            wanted: Likewise, shape (m,).
        """
        found = self._found
        if found is None or found.known is not known or found.wanted is not wanted:
            found = self._found = _found(known, wanted)
        return found


def _found(known: np.ndarray, wanted: np.ndarray) -> Found:
    if np.array_equal(known, wanted):
        return Found(known, wanted, None, None)
    place = _places(known, wanted)
    np.minimum(place, len(known) - 1, out=place)
    return Found(known, wanted, place, known[place] == wanted)


def _united(known: np.ndarray, more: np.ndarray) -> Union:
    if np.array_equal(known, more):
        return Union(known, more, known, None, None)
    # Both rise, and a stable sort merges rising runs in linear time.
    both = np.sort(np.concatenate([known, more]), kind="stable")
    people = both[np.concatenate([[True], both[1:] != both[:-1]])] if len(both) else both
    if len(people) == len(known):
        people = known
    elif len(people) == len(more):
        people = more
    old = None if people is known else _places(people, known)
    new = None if people is more else _places(people, more)
    return Union(known, more, people, old, new)


def _places(people: np.ndarray, some: np.ndarray) -> np.ndarray:
    kind = np.uint32 if len(people) < 2**32 else np.uint64
    places = np.empty(len(some), dtype=kind)
    for begin in range(0, len(some), _BLOCK):
        part = some[begin : begin + _BLOCK]
        places[begin : begin + len(part)] = np.searchsorted(people, part)
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
