"""Parts of private alignment at home: what waits for its part, and what was made to be sent."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import overload

import numpy as np

from opboost_ops.alignment.parts import Memory, Spill
from opboost_ops.alignment.tags import rows_of
from opboost_ops.stages.stage import Home

#: Look-up tags.
LOOK = np.dtype(("u1", (16,)))


def spill(home: Home, name: str, parts: int, kind: np.dtype) -> Spill:
    """Where records wait: in memory, or in a file a part where there are several.

    Args:
        home: The party's, of the run.
        name: Of what waits there.
        parts: How many parts there are.
        kind: Of the records.
    """
    return Memory(kind) if parts == 1 else _SpillFiles(home.folder / "psi-parts", name, kind)


class Sent(Sequence[np.ndarray]):
    """Parts that were made, in files of the party's home; one is in memory while it is sent.

    Args:
        home: The party's, of the run.
        name: Of the list.
        width: Bytes of an entry.
    """

    def __init__(self, home: Home, name: str, width: int) -> None:
        self._home = home
        self._name = name
        self._width = width
        self._count = 0

    def append(self, part: np.ndarray) -> None:
        """Keep the next part."""
        self._home.write(self._file(self._count), np.ascontiguousarray(part).tobytes())
        self._count += 1

    def __len__(self) -> int:
        """How many parts there are."""
        return self._count

    @overload
    def __getitem__(self, number: int) -> np.ndarray: ...

    @overload
    def __getitem__(self, number: slice) -> Sequence[np.ndarray]: ...

    def __getitem__(self, number: int | slice) -> np.ndarray | Sequence[np.ndarray]:
        """A part, uint8, shape (k, width)."""
        if isinstance(number, slice):
            return [self[i] for i in range(*number.indices(len(self)))]
        if not 0 <= number < self._count:
            raise IndexError(number)
        return rows_of(self._home.read(self._file(number)), self._width)

    def _file(self, number: int) -> str:
        return f"psi-sent/{self._name}-{number:04}"


class _SpillFiles:
    """A file a part, read by their owner alone; what an earlier try left is removed."""

    def __init__(self, folder: Path, name: str, kind: np.dtype) -> None:
        self._folder = folder
        self._name = name
        self._kind = kind
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        for left in folder.glob(f"{name}-*"):
            left.unlink()

    def add(self, part: int, records: np.ndarray) -> None:
        """See `Spill.add`."""
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
        with open(os.open(self._path(part), flags, 0o600), "wb") as file:
            file.write(np.ascontiguousarray(records).tobytes())

    def take(self, part: int) -> np.ndarray:
        """See `Spill.take`; they are there once."""
        path = self._path(part)
        if not path.is_file():
            return np.empty(0, dtype=self._kind)
        found = np.fromfile(path, dtype=self._kind)
        path.unlink()
        return found

    def _path(self, part: int) -> Path:
        return self._folder / f"{self._name}-{part:04}"
