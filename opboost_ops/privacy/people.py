"""People, identified by hashes of their IDs, and the list of forgotten people.

Nobody is ever removed from the list. It survives recoveries and restored backups, and people on it
are never pinned again.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Literal

import numpy as np
import pyarrow as pa
import sqlalchemy as sa

from opboost_ops.mechanisms import noise
from opboost_ops.privacy.ledger.database import Database, Records
from opboost_ops.privacy.ledger.tables import table
from opboost_ops.tables.spill.arrays import Scratch, release_memory, slices
from opboost_ops.tables.spill.parts import gather

IdType = Literal["string", "integer"]

_FORGOTTEN = table("forgotten", {"person": 32})


@dataclass(frozen=True)
class People:
    """Keyed hashes of people, sorted by their first half.

    Attributes:
        high: First eight bytes of each hash, uint64, ascending, shape (n,).
        low: Last eight bytes, uint64, shape (n,).
    """

    high: np.ndarray
    low: np.ndarray

    def __len__(self) -> int:
        return len(self.high)

    def same(self, other: "People") -> bool:
        """Return whether both are the same people in the same order."""
        return len(self) == len(other) and all(
            np.array_equal(self.high[rows], other.high[rows])
            and np.array_equal(self.low[rows], other.low[rows])
            for rows in slices(len(self))
        )

    def has_duplicates(self) -> bool:
        """Return whether a person occurs more than once."""
        equal = np.flatnonzero(self.high[1:] == self.high[:-1])
        if not len(equal):
            return False
        near = np.unique(np.concatenate([equal, equal + 1]))
        pairs = np.stack([self.high[near], self.low[near]], axis=1)
        return len(np.unique(pairs, axis=0)) < len(near)


def nobody() -> People:
    """Return an empty `People`."""
    return People(np.empty(0, np.uint64), np.empty(0, np.uint64))


def halves(keys: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the first and last eight bytes of hashes, uint64, shape (n,) each.

    Args:
        keys: uint8, shape (n, 16).
    """
    words = np.ascontiguousarray(keys).view(">u8").reshape(-1, 2)
    return words[:, 0].astype(np.uint64), words[:, 1].astype(np.uint64)


def places(scratch: Scratch, listed: People, wanted: People) -> np.ndarray:
    """Return the index of each wanted person among known ones, int64, shape (m,); -1 if absent.

    Args:
        scratch: Spills arrays to disk if they exceed its memory limit.
        listed: Known people, shape (n,).
        wanted: People to look up, shape (m,).
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
    # Both are sorted, so only the part of a mapped file between the first and last hash is read.
    begin = int(np.searchsorted(listed.high, high[0]))
    end = int(np.searchsorted(listed.high, high[-1], side="right"))
    at = np.searchsorted(listed.high[begin:end], high) + begin
    left = np.arange(len(high))
    # More than one iteration is needed only if two hashes share their first half.
    while len(left):
        left = left[at[left] < end]
        left = left[listed.high[at[left]] == high[left]]
        equal = listed.low[at[left]] == low[left]
        indices[left[equal]] = at[left[equal]]
        left = left[~equal]
        at[left] += 1
    return indices


class Match:
    """Looks up people and caches the last result, because most columns have the same people.

    Args:
        scratch: Spills arrays to disk if they exceed its memory limit.
    """

    def __init__(self, scratch: Scratch) -> None:
        self._scratch = scratch
        self._last: tuple[People, People, np.ndarray] | None = None

    def places(self, listed: People, wanted: People) -> np.ndarray:
        """Return `places`, possibly from the cache; do not modify the result."""
        last = self._last
        if last is not None and last[0].same(listed) and last[1].same(wanted):
            return last[2]
        indices = places(self._scratch, listed, wanted)
        self._last = (listed, wanted, indices)
        return indices


def merge(
    scratch: Scratch, old: People, new: People, *columns: tuple[np.ndarray, np.ndarray]
) -> tuple[People, list[np.ndarray]]:
    """Merge old and new people, and the arrays that belong to them.

    Args:
        scratch: Spills arrays to disk if they exceed its memory limit.
        old: People, shape (n,).
        new: Other people, shape (m,).
        columns: Pairs of arrays, of the old people, shape (n,), and of the new ones, shape (m,).

    Returns:
        All people, and each merged array in their order.
    """
    count = len(old) + len(new)
    before = np.searchsorted(old.high, new.high, side="right")
    to_new = before + np.arange(len(new))
    pairs = [(old.high, new.high), (old.low, new.low), *columns]
    arrays = [scratch.zeros(count, of_old.dtype) for of_old, _ in pairs]
    for rows in slices(len(new)):
        for combined, (_, of_new) in zip(arrays, pairs, strict=True):
            combined[to_new[rows]] = of_new[rows]
    for rows in slices(len(old)):
        numbers = np.arange(rows.start, rows.stop)
        to_old = numbers + np.searchsorted(before, numbers, side="right")
        for combined, (of_old, _) in zip(arrays, pairs, strict=True):
            combined[to_old] = of_old[rows]
    return People(arrays[0], arrays[1]), arrays[2:]


@dataclass(frozen=True)
class ForgottenPeople:
    """A snapshot of the list of forgotten people.

    Attributes:
        key: Key of the hashes of IDs.
        people: Hashes, hexadecimal.
    """

    key: bytes = b""
    people: frozenset[str] = frozenset()

    def __len__(self) -> int:
        return len(self.people)

    def keep(self, ids: pa.Array, id_type: IdType) -> np.ndarray:
        """Return a mask of the rows that may still be used, boolean, shape (n,).

        Args:
            ids: The table's IDs.
            id_type: Declared type of the IDs.
        """
        if not self.people:
            return np.ones(len(ids), dtype=bool)
        forgotten = {bytes.fromhex(person) for person in self.people}
        hashes = noise.person_keys(self.key, ids, id_type)
        return np.array([row.tobytes() not in forgotten for row in hashes], dtype=bool)


class Forgotten(Records):
    """The list of forgotten people in a party's database, as keyed hashes without names.

    Args:
        database: The party's database.
        key: Returns the key of the hashes of IDs.
    """

    def __init__(self, database: Database, key: Callable[[], bytes]) -> None:
        super().__init__(database)
        self._key = key

    def read(self) -> ForgottenPeople:
        """Read the list."""
        return self._database.unless_changed("forgotten", self._read)

    def _read(self) -> ForgottenPeople:
        rows = self._database.column(sa.select(_FORGOTTEN.c.person))
        return ForgottenPeople(self._key() if rows else b"", frozenset(rows))

    def among(self, people: People) -> np.ndarray:
        """Return a mask of the people who are on the list, bool, shape (n,).

        Args:
            people: Keyed hashes.
        """
        gone = np.zeros(len(people), dtype=bool)
        for person in self.read().people:
            high, low = halves(np.frombuffer(bytes.fromhex(person), np.uint8).reshape(1, 16))
            begin = int(np.searchsorted(people.high, high[0]))
            while begin < len(people) and people.high[begin] == high[0]:
                gone[begin] |= people.low[begin] == low[0]
                begin += 1
        return gone

    def hashed(self, person: str | int) -> str:
        """Return the keyed hash of an ID, hexadecimal.

        Args:
            person: The ID.
        """
        kind: IdType = "string" if isinstance(person, str) else "integer"
        return bytes(noise.person_keys(self._key(), pa.array([person]), kind)[0]).hex()

    def add(self, hashes: Iterable[str]) -> int:
        """Add people to the list; there is no way to remove them.

        Args:
            hashes: Keyed hashes of their IDs, hexadecimal.

        Returns:
            The number of people who were not on the list before.
        """
        with self._database.writing() as connection:
            new = sorted(set(hashes) - self._read().people)
            if new:
                connection.execute(sa.insert(_FORGOTTEN), [{"person": person} for person in new])
        return len(new)


def sort_people(scratch: Scratch, keys: np.ndarray) -> tuple[People, np.ndarray]:
    """Sort people by hash, and return the table row of each.

    Args:
        scratch: Spills arrays to disk if they exceed its memory limit.
        keys: Keyed hashes, uint8, shape (n, 16).
    """
    high = scratch.zeros(len(keys), np.uint64)
    low = scratch.zeros(len(keys), np.uint64)
    for rows in slices(len(keys)):
        high[rows], low[rows] = halves(keys[rows])
    order = np.argsort(high, kind="stable").astype(np.min_scalar_type(len(keys)))
    return People(gather(scratch, high, order), gather(scratch, low, order)), order
