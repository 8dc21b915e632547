"""Persons whom a party has been asked to forget: their rows no longer enter anything."""

import json
import os
from pathlib import Path
from typing import Literal

import numpy as np
import pyarrow as pa

from opboost_ops.mechanisms import noise


class Forgotten:
    """The list, as keyed hashes: it names nobody, and outlives a rotation of the noise secret.

    Args:
        path: The file; its key is made from the noise secret when it is first written.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._key: bytes = b""
        self._people: frozenset[bytes] = frozenset()
        if path.is_file():
            data = json.loads(path.read_bytes())
            self._key = bytes.fromhex(data["key"])
            self._people = frozenset(bytes.fromhex(person) for person in data["people"])

    def __len__(self) -> int:
        return len(self._people)

    def add(self, secret: bytes, person: str | int) -> bool:
        """Add a person.

        Args:
            secret: The party's noise secret.
            person: The ID.

        Returns:
            Whether the person was not on the list before.
        """
        key = self._key or noise.receiver_secret(secret, ":forgotten")
        kind: Literal["string", "integer"] = "string" if isinstance(person, str) else "integer"
        hashed = noise.person_keys(key, pa.array([person]), kind)[0].tobytes()
        new = hashed not in self._people
        people = sorted(self._people | {hashed})
        text = json.dumps({"key": key.hex(), "people": [p.hex() for p in people]})
        self._path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        temporary = self._path.with_name(f".{self._path.name}.{os.getpid()}")
        with open(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
            file.write(text)
        temporary.replace(self._path)
        self._key, self._people = key, frozenset(people)
        return new

    def keep(self, ids: pa.Array, id_type: Literal["string", "integer"]) -> np.ndarray:
        """Which rows may still be used, boolean, shape (n,).

        Args:
            ids: The table's IDs.
            id_type: Their declared type.
        """
        if not self._people:
            return np.ones(len(ids), dtype=bool)
        hashed = noise.person_keys(self._key, ids, id_type)
        return np.array([row.tobytes() not in self._people for row in hashed])
