"""Parts of private alignment that were made to be sent: on the party's disk until they are."""

import os

import numpy as np

from opboost_ops.tables.spill.arrays import Scratch


class Sent:
    """Parts in a file without a name, which is gone with them; one is in memory while it is sent.

    Args:
        scratch: Where.
        width: Bytes of an entry.
        parts: How many there are; one to which nothing is added is empty.
    """

    def __init__(self, scratch: Scratch, width: int, parts: int) -> None:
        self._file = scratch.file()
        self._width = width
        self._counts = [0] * parts

    def add(self, part: int, entries: np.ndarray) -> None:
        """Put entries behind those of a part; an earlier one has all of its own.

        Args:
            part: Its number.
            entries: uint8, shape (k, width).
        """
        self._counts[part] += len(entries)
        raw = np.ascontiguousarray(entries).reshape(-1).data
        while raw:
            raw = raw[self._file.write(raw) :]

    @property
    def counts(self) -> list[int]:
        """How many entries each part has."""
        return list(self._counts)

    def __len__(self) -> int:
        """How many parts there are."""
        return len(self._counts)

    def __getitem__(self, number: int) -> np.ndarray:
        """A part, uint8, shape (k, width)."""
        found = np.empty((self._counts[number], self._width), dtype=np.uint8)
        raw, at = found.reshape(-1).data, self._width * sum(self._counts[:number])
        while raw:
            read = os.preadv(self._file.fileno(), [raw], at)
            raw, at = raw[read:], at + read
        return found
