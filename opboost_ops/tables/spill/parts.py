"""Records partitioned on disk, so that each partition can be processed by itself."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import numpy as np

from opboost_ops.tables.spill.arrays import Scratch, release_memory, slices

#: Maximum number of partitions.
_MAX_PARTITIONS = 4096

#: Places of rows, and the values at them by column.
_Pieces = Iterable[tuple[np.ndarray, Mapping[str, np.ndarray]]]


class SpillPartitions:
    """Records on disk, grouped by partition.

    Args:
        scratch: The spill space.
        kind: Type of the records.
        parts: Number of partitions.
    """

    def __init__(self, scratch: Scratch, kind: np.dtype[Any], parts: int) -> None:
        self._kind = kind
        self._file = scratch.file()
        self._end = 0
        self._spans: list[list[tuple[int, int]]] = [[] for _ in range(parts)]

    def add(self, at: np.ndarray, records: np.ndarray) -> None:
        """Append records to their partitions.

        Args:
            at: Partition of each record, integers, shape (n,).
            records: Records, shape (n,).
        """
        order = np.argsort(at.astype(np.uint16), kind="stable")
        raw = np.ascontiguousarray(records[order]).data.cast("B")
        while raw:
            raw = raw[self._file.write(raw) :]
        for part, count in enumerate(np.bincount(at, minlength=len(self._spans)).tolist()):
            if count:
                size = count * self._kind.itemsize
                self._spans[part].append((self._end, size))
                self._end += size

    def __iter__(self) -> Iterator[np.ndarray]:
        """Yield the records of each partition, in the order in which they were added."""
        for spans in self._spans:
            records = np.empty(sum(size for _, size in spans) // self._kind.itemsize, self._kind)
            raw, begin = records.data.cast("B") if len(records) else memoryview(b""), 0
            for at, size in spans:
                self._file.seek(at)
                end = begin + size
                while begin < end:
                    begin += self._file.readinto(raw[begin:end])
            yield records


def partition_by_hash(
    scratch: Scratch,
    pieces: Iterable[np.ndarray],
    rows: int,
    hash_of: Callable[[np.ndarray], np.ndarray],
) -> Iterator[np.ndarray]:
    """Partition records by ranges of a hash.

    Args:
        scratch: The spill space; records that fit into memory form a single partition.
        pieces: The records, in blocks.
        rows: Total number of records.
        hash_of: Returns the first 16 bits of each record's hash, integers, shape (n,).

    Yields:
        The records of each partition in the order of their ranges; within one, in input order.
    """
    if scratch.holds(rows):
        if blocks := list(pieces):
            yield np.concatenate(blocks)
        return
    wanted = -(-rows // scratch.part_rows())
    bits = min(max(wanted - 1, 1).bit_length(), _MAX_PARTITIONS.bit_length() - 1)
    partitions: SpillPartitions | None = None
    for piece in pieces:
        partitions = partitions or SpillPartitions(scratch, piece.dtype, 1 << bits)
        partitions.add(hash_of(piece).astype(np.int64) >> (16 - bits), piece)
    yield from partitions or ()


def scatter(
    scratch: Scratch, pieces: _Pieces, rows: int, kinds: Mapping[str, Any]
) -> dict[str, np.ndarray]:
    """Write the values of columns to given places.

    Args:
        scratch: The spill space.
        pieces: Distinct places, integers, shape (k,); and values by column, shape (k, ...).
        rows: Number of places; those without a value are zero.
        kinds: Type of a row of each column.

    Returns:
        Columns by name, shape (rows, ...), in memory or on disk.
    """
    whole = {name: scratch.zeros(rows, kind) for name, kind in kinds.items()}
    if scratch.holds(rows):
        for places, values in pieces:
            for name, column in whole.items():
                column[places] = values[name]
        return whole
    names = {name: f"f{i}" for i, name in enumerate(kinds)}
    fields = [(names[name], kind) for name, kind in kinds.items()]
    records = np.dtype([("at", np.min_scalar_type(rows)), *fields])
    size = max(scratch.part_rows(), -(-rows // _MAX_PARTITIONS))
    partitions = SpillPartitions(scratch, records, -(-rows // size))
    for places, values in pieces:
        for part in slices(len(places)):
            batch = np.empty(len(places[part]), dtype=records)
            batch["at"] = places[part]
            for name, field in names.items():
                batch[field] = values[name][part]
            partitions.add(batch["at"] // size, batch)
    for partition in partitions:
        for name, field in names.items():
            whole[name][partition["at"]] = partition[field]
        release_memory()
    return whole


def gather(scratch: Scratch, column: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """Return the values of a column in given rows, in their order.

    Args:
        scratch: The spill space.
        column: Shape (n, ...), in memory or mapped.
        rows: Row indices, integers, shape (m,).

    Returns:
        Shape (m, ...), in memory or on disk.
    """
    if scratch.holds(len(rows)) and scratch.holds(len(column)):
        return np.asarray(column[rows])
    size = max(scratch.part_rows(), -(-len(column) // _MAX_PARTITIONS))
    records = np.dtype(
        [("to", np.min_scalar_type(len(rows))), ("of", np.min_scalar_type(len(column)))]
    )
    partitions = SpillPartitions(scratch, records, max(-(-len(column) // size), 1))
    for part in slices(len(rows)):
        batch = np.empty(part.stop - part.start, dtype=records)
        batch["of"] = rows[part]
        batch["to"] = np.arange(part.start, part.stop)
        partitions.add(batch["of"] // size, batch)
    kind = np.dtype((column.dtype, column.shape[1:]))
    pieces = ((part["to"], {"": column[part["of"]]}) for part in partitions)
    return scatter(scratch, pieces, len(rows), {"": kind})[""]
