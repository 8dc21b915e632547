"""Places of people among people, by 128-bit keyed hashes of their IDs."""

from dataclasses import dataclass

import numpy as np

from opboost_ops.tables.spill.arrays import Scratch, release_memory, slices


@dataclass(frozen=True)
class People:
    """Keyed hashes of persons in rising order of their first half.

    Attributes:
        high: First eight bytes of each hash, uint64, rising, shape (n,).
        low: Last eight bytes, uint64, shape (n,).
    """

    high: np.ndarray
    low: np.ndarray

    def __len__(self) -> int:
        return len(self.high)

    def same(self, other: "People") -> bool:
        """True if both are the same people, in the same order."""
        return len(self) == len(other) and all(
            np.array_equal(self.high[rows], other.high[rows])
            and np.array_equal(self.low[rows], other.low[rows])
            for rows in slices(len(self))
        )

    def has_twice(self) -> bool:
        """True if a person occurs more than once."""
        equal = np.flatnonzero(self.high[1:] == self.high[:-1])
        if not len(equal):
            return False
        near = np.unique(np.concatenate([equal, equal + 1]))
        pairs = np.stack([self.high[near], self.low[near]], axis=1)
        return len(np.unique(pairs, axis=0)) < len(near)


def nobody() -> People:
    """No people."""
    return People(np.empty(0, np.uint64), np.empty(0, np.uint64))


def halves(keys: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """First and last eight bytes of hashes, uint64, shape (n,) each.

    Args:
        keys: uint8, shape (n, 16).
    """
    words = np.ascontiguousarray(keys).view(">u8").reshape(-1, 2)
    return words[:, 0].astype(np.uint64), words[:, 1].astype(np.uint64)


def places(scratch: Scratch, listed: People, wanted: People) -> np.ndarray:
    """The place of each wanted person among known ones, int64, shape (m,); -1 where there is none.

    Args:
        scratch: Where they are, if they are more than it holds.
        listed: People, shape (n,).
        wanted: People, shape (m,).
    """
    indices = scratch.zeros(len(wanted), np.int64)
    for rows in slices(len(wanted)):
        indices[rows] = _places(listed, wanted.high[rows], wanted.low[rows])
        release_memory()
    return indices


def _places(listed: People, high: np.ndarray, low: np.ndarray) -> np.ndarray:
    indices = np.full(len(high), -1, dtype=np.int64)
    if not len(high) or not len(listed):
        return indices
    # Both rise: of a mapped file no more is looked at than lies between the ends.
    begin = int(np.searchsorted(listed.high, high[0]))
    end = int(np.searchsorted(listed.high, high[-1], side="right"))
    at = np.searchsorted(listed.high[begin:end], high) + begin
    left = np.arange(len(high))
    # More than one step only where two hashes share their first half.
    while len(left):
        left = left[at[left] < end]
        left = left[listed.high[at[left]] == high[left]]
        equal = listed.low[at[left]] == low[left]
        indices[left[equal]] = at[left[equal]]
        left = left[~equal]
        at[left] += 1
    return indices


class Match:
    """Finds places, and remembers them for the next column, which mostly has the same people.

    Args:
        scratch: Where they are, if they are more than it holds.
    """

    def __init__(self, scratch: Scratch) -> None:
        self._scratch = scratch
        self._last: tuple[People, People, np.ndarray] | None = None

    def places(self, listed: People, wanted: People) -> np.ndarray:
        """See `places`; the result is shared, so nobody may change it."""
        last = self._last
        if last is not None and last[0].same(listed) and last[1].same(wanted):
            return last[2]
        indices = places(self._scratch, listed, wanted)
        self._last = (listed, wanted, indices)
        return indices


def merged(
    scratch: Scratch, old: People, new: People, *columns: tuple[np.ndarray, np.ndarray]
) -> tuple[People, list[np.ndarray]]:
    """Old and new people together, and what belongs to each of them.

    Args:
        scratch: Where they are, if they are more than it holds.
        old: People, shape (n,).
        new: Others, shape (m,).
        columns: What belongs to the old ones, shape (n,), and to the new ones, shape (m,).

    Returns:
        All people, and each column in their order.
    """
    count = len(old) + len(new)
    before = np.searchsorted(old.high, new.high, side="right")
    to_new = before + np.arange(len(new))
    pairs = [(old.high, new.high), (old.low, new.low), *columns]
    arrays = [scratch.zeros(count, of_old.dtype) for of_old, _ in pairs]
    for rows in slices(len(new)):
        for whole, (_, of_new) in zip(arrays, pairs, strict=True):
            whole[to_new[rows]] = of_new[rows]
    for rows in slices(len(old)):
        numbers = np.arange(rows.start, rows.stop)
        to_old = numbers + np.searchsorted(before, numbers, side="right")
        for whole, (of_old, _) in zip(arrays, pairs, strict=True):
            whole[to_old] = of_old[rows]
    return People(arrays[0], arrays[1]), arrays[2:]
