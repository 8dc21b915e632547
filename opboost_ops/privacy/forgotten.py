"""Persons whom a party has been asked to forget: their rows no longer enter anything.

The list has no way back, and outlives recoveries and restored backups: who is on it is never
pinned again.
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
from opboost_ops.privacy.match import People, halves

IdType = Literal["string", "integer"]

_FORGOTTEN = table("forgotten", {"person": 32})


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
