"""People by hashes of their IDs: their places among others, and those who are forgotten.

The list of the forgotten has no way back, and outlives recoveries and restored backups: who is on
it is never pinned again.
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

IdType = Literal["string", "integer"]

_FORGOTTEN = table("forgotten", {"person": 32})


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


@dataclass(frozen=True)
class ForgottenPeople:
    """The list as it was read.

    Attributes:
        key: Under which IDs are hashed.
        people: Hashes, hexadecimal.
    """

    key: bytes = b""
    people: frozenset[str] = frozenset()

    def __len__(self) -> int:
        return len(self.people)

    def keep(self, ids: pa.Array, id_type: IdType) -> np.ndarray:
        """The rows that may still be used, boolean, shape (n,).

        Args:
            ids: The table's IDs.
            id_type: Their declared type.
        """
        if not self.people:
            return np.ones(len(ids), dtype=bool)
        gone = {bytes.fromhex(person) for person in self.people}
        hashes = noise.person_keys(self.key, ids, id_type)
        return np.array([row.tobytes() not in gone for row in hashes], dtype=bool)


class Forgotten(Records):
    """The list in a party's database, as keyed hashes: it names nobody.

    Args:
        database: The party's.
        key: Gives the key under which it hashes IDs.
    """

    def __init__(self, database: Database, key: Callable[[], bytes]) -> None:
        super().__init__(database)
        self._key = key

    def read(self) -> ForgottenPeople:
        """The list."""
        return self._database.unless_changed("forgotten", self._read)

    def _read(self) -> ForgottenPeople:
        rows = self._database.column(sa.select(_FORGOTTEN.c.person))
        return ForgottenPeople(self._key() if rows else b"", frozenset(rows))

    def among(self, people: People) -> np.ndarray:
        """Which of some people are on the list, bool, shape (n,).

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
        """The keyed hash of an ID, hexadecimal.

        Args:
            person: The ID.
        """
        kind: IdType = "string" if isinstance(person, str) else "integer"
        return bytes(noise.person_keys(self._key(), pa.array([person]), kind)[0]).hex()

    def add(self, hashes: Iterable[str]) -> int:
        """Add people; nobody is ever taken off the list.

        Args:
            hashes: Keyed hashes of their IDs, hexadecimal.

        Returns:
            How many were not on it before.
        """
        with self._database.writing() as connection:
            new = sorted(set(hashes) - self._read().people)
            if new:
                connection.execute(sa.insert(_FORGOTTEN), [{"person": person} for person in new])
        return len(new)
