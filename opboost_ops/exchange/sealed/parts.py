"""Parts of a long list of points or tags, split by their first bits, with one part in memory.

Points and tags look random without their owner's exponent, so the sizes of the parts reveal
nothing. The number of parts is a function of the number of rows, which is public.

    >>> [part_count(rows) for rows in (1, 1 << 20, (1 << 20) + 1, 10**8)]
    [1, 1, 2, 128]
"""

import os
from collections.abc import Iterable, Iterator, Mapping
from itertools import groupby, pairwise
from operator import itemgetter

import numpy as np

from opboost_ops.exchange.sealed.ids import TAG, sort_order
from opboost_ops.tables.spill.arrays import Scratch, release_memory
from opboost_ops.tables.spill.parts import partition_by_hash

#: Maximum average number of entries per part.
PART = 1 << 20

#: Maximum number of an entry's first 16 bits that determine its part.
_MOST_BITS = 12


def record(rows: int, key: int = TAG, **more: int) -> np.dtype:
    """Return a type of records for sorting: a key, further fields, and the number of the row.

    Args:
        rows: Number of rows.
        key: Bytes of the key.
        more: Bytes of each further field.
    """
    widths = {"key": key, **more}
    fields = [(name, "u1", (width,)) for name, width in widths.items()]
    return np.dtype([*fields, ("row", np.min_scalar_type(max(rows - 1, 0)))])


def number_rows(pieces: Iterable[Mapping[str, np.ndarray]], kind: np.dtype) -> Iterator[np.ndarray]:
    """Yield records with the numbers of their rows.

    Args:
        pieces: Pieces of the table: the columns by field, uint8, shape (k, width).
        kind: Type of the records, from `record`.
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
    """Return the number of parts of a list, a power of two.

    Args:
        entries: Number of entries of the list.
    """
    return 1 << min((max(entries - 1, 0) // PART).bit_length(), _MOST_BITS)


def part_of(keys: np.ndarray, parts: int) -> np.ndarray:
    """Return the part of each key, int64, shape (n,).

    Args:
        keys: uint8, shape (n, width).
        parts: Number of parts, a power of two.
    """
    first = keys[:, 0].astype(np.int64) << 8 | keys[:, 1]
    return np.asarray(first >> (16 - (parts.bit_length() - 1)))


def sorted_records(
    scratch: Scratch, records: Iterable[np.ndarray], count: int
) -> Iterator[np.ndarray]:
    """Yield records sorted by their keys' bytes, in pieces.

    Args:
        scratch: Spills records to disk if they exceed its memory limit.
        records: Records of a type from `record`, in pieces.
        count: Number of records.
    """
    for batch in partition_by_hash(scratch, records, count, lambda r: part_of(r["key"], 1 << 16)):
        # Rebinding the name releases the unsorted records.
        batch = batch[sort_order(batch["key"])]
        if len(batch):
            yield batch


def sorted_parts(
    scratch: Scratch, records: Iterable[np.ndarray], count: int, parts: int
) -> Iterator[tuple[int, np.ndarray]]:
    """Yield sorted records with the numbers of their parts; a part may have any number of pieces.

    Args:
        scratch: Spills records to disk if they exceed its memory limit.
        records: Records of a type from `record`, in pieces.
        count: Number of records.
        parts: Number of parts of the list, a power of two.

    Yields:
        The number of a part, in increasing order, and some of its records.
    """
    for batch in sorted_records(scratch, records, count):
        cuts = np.searchsorted(part_of(batch["key"], parts), np.arange(parts + 1)).tolist()
        for part, (begin, end) in enumerate(pairwise(cuts)):
            if begin < end:
                yield part, batch[begin:end]


def by_part(
    scratch: Scratch, records: Iterable[np.ndarray], count: int, parts: int
) -> Iterator[tuple[int, np.ndarray]]:
    """Yield the same as `sorted_parts` for look-ups: a single part is not sorted."""
    return ((0, r) for r in records) if parts == 1 else sorted_parts(scratch, records, count, parts)


def whole_parts(
    pieces: Iterable[tuple[int, np.ndarray]], parts: int, kind: np.dtype
) -> Iterator[np.ndarray]:
    """Yield the records of every part in one piece, which may be empty.

    Args:
        pieces: Output of `sorted_parts`.
        parts: Number of parts.
        kind: Type of the records.
    """
    end = 0
    for part, several in groupby(pieces, itemgetter(0)):
        yield from (np.empty(0, dtype=kind) for _ in range(end, part))
        yield _joined([piece for _, piece in several])
        end = part + 1
    yield from (np.empty(0, dtype=kind) for _ in range(end, parts))


def _joined(pieces: list[np.ndarray]) -> np.ndarray:
    """Join pieces, and release them."""
    joined = pieces[0] if len(pieces) == 1 else np.concatenate(pieces)
    pieces.clear()
    return joined


class PartFile:
    """A sequence of parts in an unnamed temporary file, so that one part is in memory at a time.

    Args:
        scratch: Folder of the file.
        width: Bytes per entry.
        parts: Number of parts; parts without entries are empty.
    """

    def __init__(self, scratch: Scratch, width: int, parts: int) -> None:
        self._file = scratch.file()
        self._width = width
        self._counts = [0] * parts

    def add(self, part: int, entries: np.ndarray) -> None:
        """Append entries to a part; earlier parts must be complete.

        Args:
            part: Number of the part.
            entries: uint8, shape (k, width).
        """
        self._counts[part] += len(entries)
        raw = np.ascontiguousarray(entries).reshape(-1).data
        while raw:
            raw = raw[self._file.write(raw) :]

    @property
    def counts(self) -> list[int]:
        """Number of entries of each part."""
        return list(self._counts)

    def __len__(self) -> int:
        """Return the number of parts."""
        return len(self._counts)

    def __getitem__(self, number: int) -> np.ndarray:
        """Return a part, uint8, shape (k, width)."""
        part = np.empty((self._counts[number], self._width), dtype=np.uint8)
        raw, at = part.reshape(-1).data, self._width * sum(self._counts[:number])
        while raw:
            read = os.preadv(self._file.fileno(), [raw], at)
            raw, at = raw[read:], at + read
        return part
