"""Persons whom a party has been asked to forget: their rows no longer enter anything.

The list has no way back. The public worst case of a column counts on it: whoever came back would
begin with empty cells. So it is only ever added to, and put together with an older copy, never
replaced by one; the ledger's database holds a copy of its own.
"""

import json
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Literal
from uuid import uuid4

import numpy as np
import pyarrow as pa

from opboost_ops.mechanisms import noise


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
                kind: Literal["string", "integer"] = (
                    "string" if isinstance(person, str) else "integer"
                )
                keys = noise.person_keys(towards, pa.array([person]), kind)
                found.append(noise.person_hashes(towards, keys))
    return np.unique(np.concatenate(found)) if found else np.empty(0, dtype=np.uint64)


#: In place of a key: entries that are hashes of persons as cell states have them.
_CELLS = ""


class Forgotten:
    """The list, as keyed hashes: it names nobody, and outlives a rotation of the noise secret.

    Args:
        path: The file; its key is made from the noise secret when it is first written.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._key = ""
        self._entries: set[tuple[str, str]] = set()
        if path.is_file():
            data = json.loads(path.read_bytes())
            self._key = data["key"]
            self._entries = {(self._key, person) for person in data["people"]}
            self._entries |= {(key, person) for key, person in data.get("more", ())}

    def __len__(self) -> int:
        return sum(key != _CELLS for key, _ in self._entries)

    def add(self, secret: bytes, person: str | int, cells: Iterable[int] = ()) -> bool:
        """Add a person.

        Args:
            secret: The party's noise secret.
            person: The ID.
            cells: The person's hashes in cell states, under all secrets there were.

        Returns:
            Whether the person was not on the list before.
        """
        self._key = self._key or noise.receiver_secret(secret, ":forgotten").hex()
        kind: Literal["string", "integer"] = "string" if isinstance(person, str) else "integer"
        keys = {key for key, _ in self._entries if key != _CELLS} | {self._key}
        ids = pa.array([person])
        hashed = {
            (key, noise.person_keys(bytes.fromhex(key), ids, kind)[0].tobytes().hex())
            for key in keys
        }
        new = not hashed <= self._entries
        self.merge(hashed | {(_CELLS, f"{person:016x}") for person in cells})
        return new

    def merge(self, entries: Iterable[tuple[str, str]]) -> None:
        """Add what a copy of the list has; nobody is ever taken off it.

        Args:
            entries: What `entries` of the copy gives.
        """
        self._entries |= set(entries)
        self._key = self._key or min((key for key, _ in self._entries if key != _CELLS), default="")
        people = sorted(person for key, person in self._entries if key == self._key)
        more = sorted(entry for entry in self._entries if entry[0] != self._key)
        text = json.dumps({"key": self._key, "people": people, "more": more})
        self._path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        temporary = self._path.with_name(f".{self._path.name}.{uuid4().hex}")
        with open(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(self._path)

    def entries(self) -> set[tuple[str, str]]:
        """All of the list: hexadecimal keys, and hashes under them."""
        return set(self._entries)

    def hashes(self) -> np.ndarray:
        """The forgotten as cell states would have them, uint64, shape (n,)."""
        found = sorted(int(person, 16) for key, person in self._entries if key == _CELLS)
        return np.array(found, dtype=np.uint64)

    def keep(self, ids: pa.Array, id_type: Literal["string", "integer"]) -> np.ndarray:
        """Which rows may still be used, boolean, shape (n,).

        Args:
            ids: The table's IDs.
            id_type: Their declared type.
        """
        kept = np.ones(len(ids), dtype=bool)
        for key in {key for key, _ in self._entries if key != _CELLS}:
            people = {bytes.fromhex(person) for at, person in self._entries if at == key}
            hashed = noise.person_keys(bytes.fromhex(key), ids, id_type)
            kept &= np.array([row.tobytes() not in people for row in hashed], dtype=bool)
        return kept
