"""Persons whom a party has been asked to forget: their rows no longer enter anything.

The list has no way back. The public worst case of a column counts on it: a person who came back
would begin with empty cells. So it is only ever added to.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

import numpy as np
import pyarrow as pa
import sqlalchemy as sa

from opboost_ops.mechanisms import noise
from opboost_ops.privacy.database import Records
from opboost_ops.privacy.tables import table


def cell_hashes(
    secrets: Iterable[bytes], groups: Iterable[str], identities: Iterable[str | int]
) -> np.ndarray:
    """A person's hashes in cell states, uint64, shape (n,).

    Args:
        secrets: The party's noise secrets, former ones too.
        groups: Names under which secrets towards receivers are derived.
        identities: The person's ID, in each type that IDs have.
    """
    names, people = list(groups), list(identities)
    found: list[np.ndarray] = []
    for secret in secrets:
        for name in names:
            towards = noise.receiver_secret(secret, name)
            for person in people:
                keys = noise.person_keys(towards, pa.array([person]), _kind(person))
                found.append(noise.person_hashes(towards, keys))
    return np.unique(np.concatenate(found)) if found else np.empty(0, dtype=np.uint64)


def _kind(person: str | int) -> Literal["string", "integer"]:
    return "string" if isinstance(person, str) else "integer"


#: In place of a key: entries that are hashes of persons as cell states have them.
_CELLS = ""

_FORGOTTEN = table("forgotten", {"key": 64, "person": 32})


@dataclass(frozen=True)
class ForgottenPeople:
    """The list as it was read.

    Attributes:
        entries: Hexadecimal keys, and hashes under them.
    """

    entries: frozenset[tuple[str, str]] = frozenset()

    def __len__(self) -> int:
        return sum(key != _CELLS for key, _ in self.entries)

    def hashes(self) -> np.ndarray:
        """The forgotten as cell states would have them, uint64, shape (n,)."""
        found = sorted(int(person, 16) for key, person in self.entries if key == _CELLS)
        return np.array(found, dtype=np.uint64)

    def keep(self, ids: pa.Array, id_type: Literal["string", "integer"]) -> np.ndarray:
        """Which rows may still be used, boolean, shape (n,).

        Args:
            ids: The table's IDs.
            id_type: Their declared type.
        """
        kept = np.ones(len(ids), dtype=bool)
        for key in {key for key, _ in self.entries if key != _CELLS}:
            people = {bytes.fromhex(person) for at, person in self.entries if at == key}
            hashed = noise.person_keys(bytes.fromhex(key), ids, id_type)
            kept &= np.array([row.tobytes() not in people for row in hashed], dtype=bool)
        return kept


class Forgotten(Records):
    """The list in a party's database, as keyed hashes: it names nobody.

    Args:
        database: The party's; the list's key is made from the noise secret at its first entry, and
            outlives a rotation of it.
    """

    def read(self) -> ForgottenPeople:
        """The list."""
        return self._database.unless_changed("forgotten", self._read)

    def _read(self) -> ForgottenPeople:
        rows = self._database.rows(sa.select(_FORGOTTEN.c.key, _FORGOTTEN.c.person))
        return ForgottenPeople(frozenset((key, person) for key, person in rows))

    def add(self, secret: bytes, person: str | int, cells: Iterable[int] = ()) -> bool:
        """Add a person.

        Args:
            secret: The party's noise secret.
            person: The ID.
            cells: The person's hashes in cell states, under all secrets there were.

        Returns:
            Whether the person was not on the list before.
        """
        ids, kind = pa.array([person]), _kind(person)
        with self._database.writing():
            known = self.read().entries
            keys = {key for key, _ in known if key != _CELLS}
            keys = keys or {noise.receiver_secret(secret, ":forgotten").hex()}
            hashed = {
                (key, noise.person_keys(bytes.fromhex(key), ids, kind)[0].tobytes().hex())
                for key in keys
            }
            self.merge(hashed | {(_CELLS, f"{person:016x}") for person in cells})
        return not hashed <= known

    def merge(self, entries: Iterable[tuple[str, str]]) -> None:
        """Add what another list has; nobody is ever taken off it.

        Args:
            entries: Of the other list.
        """
        with self._database.writing() as connection:
            new = sorted(set(entries) - self.read().entries)
            if new:
                rows = [{"key": key, "person": person} for key, person in new]
                connection.execute(sa.insert(_FORGOTTEN), rows)
