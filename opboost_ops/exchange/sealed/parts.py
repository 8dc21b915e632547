"""Parts of a long list of points or tags, cut by their first bits: no more than one in memory.

Points and tags look random to anyone who lacks their owner's exponent, so how many fall into each
part tells nothing. How many parts there are follows from the number of rows, which is public.

    >>> [part_count(rows) for rows in (1, 1 << 20, (1 << 20) + 1, 10**8)]
    [1, 1, 2, 128]
"""

import os
from collections.abc import Iterable, Iterator, Mapping
from itertools import groupby, pairwise
from operator import itemgetter

import numpy as np

from opboost_ops.exchange.sealed.ids import TAG, sorting
from opboost_ops.tables.spill.arrays import Scratch, release_memory
from opboost_ops.tables.spill.parts import partition_by_hash

#: At most so many entries, on average, are in a part.
PART = 1 << 20

#: Of the first 16 bits of an entry, at most so many say which part it is in.
_MOST_BITS = 12


def record(rows: int, key: int = TAG, **more: int) -> np.dtype:
    """The record type to sort by: a key, the row that it is of, and what goes with it.

    Args:
        rows: How many there are.
        key: Bytes of a key.
        more: Bytes of each field that goes with it.
    """
    widths = {"key": key, **more}
    fields = [(name, "u1", (width,)) for name, width in widths.items()]
    return np.dtype([*fields, ("row", np.min_scalar_type(max(rows - 1, 0)))])


def numbered(pieces: Iterable[Mapping[str, np.ndarray]], kind: np.dtype) -> Iterator[np.ndarray]:
    """Records of fields that come in pieces, each with the number of its row.

    Args:
        pieces: By field, uint8, shape (k, width).
        kind: Made by `record`.
    """
    end = 0
    for fields in pieces:
        begin, end = end, end + len(fields["key"])
        records = np.empty(end - begin, dtype=kind)
        for name, column in fields.items():
            records[name] = column
        records["row"] = np.arange(begin, end)
        yield records
        release_memory()


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


def rising_records(
    scratch: Scratch, records: Iterable[np.ndarray], count: int
) -> Iterator[np.ndarray]:
    """Records in the order of their keys' bytes, some at a time.

    Args:
        scratch: Where they wait, if they are more than it holds.
        records: Made by `record`, in pieces.
        count: How many they are.
    """
    for batch in partition_by_hash(scratch, records, count, lambda r: part_of(r["key"], 1 << 16)):
        # What came in another order is let go of first.
        batch = batch[sorting(batch["key"])]
        if len(batch):
            yield batch


def rising_parts(
    scratch: Scratch, records: Iterable[np.ndarray], count: int, parts: int
) -> Iterator[tuple[int, np.ndarray]]:
    """The same, and which part of a list they are in; a part may come in several pieces, or not.

    Args:
        scratch: Where they wait, if they are more than it holds.
        records: Made by `record`, in pieces.
        count: How many they are.
        parts: How many parts the list has, a power of two.

    Yields:
        The number of a part, which never falls, and some of its records.
    """
    for batch in rising_records(scratch, records, count):
        cuts = np.searchsorted(part_of(batch["key"], parts), np.arange(parts + 1)).tolist()
        for part, (begin, end) in enumerate(pairwise(cuts)):
            if begin < end:
                yield part, batch[begin:end]


def by_part(
    scratch: Scratch, records: Iterable[np.ndarray], count: int, parts: int
) -> Iterator[tuple[int, np.ndarray]]:
    """As `rising_parts`, for look-ups: records of one part come in any order."""
    return ((0, r) for r in records) if parts == 1 else rising_parts(scratch, records, count, parts)


def whole_parts(
    pieces: Iterable[tuple[int, np.ndarray]], parts: int, kind: np.dtype
) -> Iterator[np.ndarray]:
    """The records of every part, each in one piece, which may be empty.

    Args:
        pieces: As `rising_parts` gives them.
        parts: How many parts there are.
        kind: Of the records.
    """
    end = 0
    for part, several in groupby(pieces, itemgetter(0)):
        yield from (np.empty(0, dtype=kind) for _ in range(end, part))
        yield _joined([piece for _, piece in several])
        end = part + 1
    yield from (np.empty(0, dtype=kind) for _ in range(end, parts))


def _joined(pieces: list[np.ndarray]) -> np.ndarray:
    """Some pieces in one, of which nothing else is kept."""
    joined = pieces[0] if len(pieces) == 1 else np.concatenate(pieces)
    pieces.clear()
    return joined


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
        part = np.empty((self._counts[number], self._width), dtype=np.uint8)
        raw, at = part.reshape(-1).data, self._width * sum(self._counts[:number])
        while raw:
            read = os.preadv(self._file.fileno(), [raw], at)
            raw, at = raw[read:], at + read
        return part
