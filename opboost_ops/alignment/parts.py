"""Parts of a long list of points or tags, cut by their first bits: no more than one in memory.

Points and tags look random to whoever lacks their owner's exponent, so how many fall into each part
tells nothing. How many parts there are follows from the number of rows, which is public.

    >>> [part_count(rows) for rows in (1, 1 << 20, (1 << 20) + 1, 10**8)]
    [1, 1, 2, 128]
"""

from collections.abc import Iterator
from typing import Protocol

import numpy as np

#: At most so many entries, on average, are in a part.
PART = 1 << 20

#: Of the first 16 bits of an entry, at most so many say which part it is in.
_MOST_BITS = 12

#: What is dealt: a key by whose first bits its part is chosen, a value, and whose they are.
RECORD = np.dtype([("key", "u1", (16,)), ("value", "u1", (16,)), ("row", "<i8")])

#: The same of a point.
POINT_RECORD = np.dtype([("key", "u1", (32,)), ("row", "<i8")])


class Spill(Protocol):
    """Where records wait for their part to be looked at."""

    def add(self, part: int, records: np.ndarray) -> None:
        """Put records behind those of a part."""

    def take(self, part: int) -> np.ndarray:
        """All records of a part, in the order in which they came."""


def part_count(entries: int) -> int:
    """How many parts so many entries have, a power of two.

    Args:
        entries: Their number.
    """
    return 1 << min((max(entries - 1, 0) // PART).bit_length(), _MOST_BITS)


def part_of(keys: np.ndarray, parts: int) -> np.ndarray:
    """The part of each key, int64, shape (n,).

    Args:
        keys: uint8, shape (n, width).
        parts: How many there are, a power of two.
    """
    first = keys[:, 0].astype(np.int64) << 8 | keys[:, 1]
    return np.asarray(first >> (16 - (parts.bit_length() - 1)))


def deal(spill: Spill, records: np.ndarray, parts: int) -> None:
    """Put records to their parts.

    Args:
        spill: Where they wait.
        records: Of one of the types above, shape (n,).
        parts: How many there are.
    """
    if parts == 1:
        spill.add(0, records)
        return
    at = part_of(records["key"], parts)
    order = np.argsort(at, kind="stable")
    cuts = np.searchsorted(at[order], np.arange(parts + 1))
    for part in range(parts):
        if cuts[part] < cuts[part + 1]:
            spill.add(part, records[order[cuts[part] : cuts[part + 1]]])


def spans(sizes: list[int]) -> Iterator[tuple[int, int]]:
    """Where each part begins and ends in the whole list.

    Args:
        sizes: Entries of each.
    """
    begin = 0
    for size in sizes:
        yield begin, begin + size
        begin += size


class Memory:
    """A spill in memory."""

    def __init__(self, kind: np.dtype = RECORD) -> None:
        self._kind = kind
        self._held: dict[int, list[np.ndarray]] = {}

    def add(self, part: int, records: np.ndarray) -> None:
        """See `Spill.add`."""
        self._held.setdefault(part, []).append(records)

    def take(self, part: int) -> np.ndarray:
        """See `Spill.take`."""
        return np.concatenate([np.empty(0, dtype=self._kind), *self._held.get(part, [])])
