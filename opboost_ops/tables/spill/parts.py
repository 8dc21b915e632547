"""Records partitioned on disk, so that each partition can be processed by itself."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import numpy as np

from opboost_ops.tables.spill.arrays import Scratch, release_memory, slices

#: Parts at most.
_MOST = 4096

#: Places among rows, and what lies there, by column.
_Pieces = Iterable[tuple[np.ndarray, Mapping[str, np.ndarray]]]


class SpillPartitions:
    """Records that wait on disk for their part to be looked at.

    Args:
        scratch: Where.
        kind: Their type.
        parts: How many parts there are.
    """

    def __init__(self, scratch: Scratch, kind: np.dtype[Any], parts: int) -> None:
        self._kind = kind
        self._file = scratch.file()
        self._end = 0
        self._spans: list[list[tuple[int, int]]] = [[] for _ in range(parts)]

    def add(self, at: np.ndarray, records: np.ndarray) -> None:
        """Put records behind those of their parts.

        Args:
            at: The part of each, integers, shape (n,).
            records: Shape (n,).
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
        """The records of each part, in the order in which they came."""
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
    """Records in parts that follow one another in the order of a hash.

    Args:
        scratch: Where they wait; those that it holds are one part.
        pieces: Of the records.
        rows: How many there are in all.
        hash_of: The first 16 bits of each record's hash, integers, shape (n,).

    Yields:
        A part's records, in the order in which they came.
    """
    if scratch.holds(rows):
        if there := list(pieces):
            yield np.concatenate(there)
        return
    wanted = -(-rows // scratch.part_rows())
    bits = min(max(wanted - 1, 1).bit_length(), _MOST.bit_length() - 1)
    waiting: SpillPartitions | None = None
    for piece in pieces:
        waiting = waiting or SpillPartitions(scratch, piece.dtype, 1 << bits)
        waiting.add(hash_of(piece).astype(np.int64) >> (16 - bits), piece)
    yield from waiting or ()


def scatter(
    scratch: Scratch, pieces: _Pieces, rows: int, kinds: Mapping[str, Any]
) -> dict[str, np.ndarray]:
    """Columns whose values are each put to its place.

    Args:
        scratch: Where they wait.
        pieces: Places, integers, shape (k,), none of them twice; and values by column, shape
            (k, ...).
        rows: How many places there are; one that is not named has zeros.
        kinds: Type of a row of each column.

    Returns:
        By column, shape (rows, ...), in memory or on disk.
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
    size = max(scratch.part_rows(), -(-rows // _MOST))
    waiting = SpillPartitions(scratch, records, -(-rows // size))
    for places, values in pieces:
        for part in slices(len(places)):
            batch = np.empty(len(places[part]), dtype=records)
            batch["at"] = places[part]
            for name, field in names.items():
                batch[field] = values[name][part]
            waiting.add(batch["at"] // size, batch)
    for partition in waiting:
        for name, field in names.items():
            whole[name][partition["at"]] = partition[field]
        release_memory()
    return whole


def gather(scratch: Scratch, column: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """The values of a column in some rows, in the order in which they are named.

    Args:
        scratch: Where they wait.
        column: Shape (n, ...), in memory or mapped.
        rows: Which, integers, shape (m,).

    Returns:
        Shape (m, ...), in memory or on disk.
    """
    if scratch.holds(len(rows)) and scratch.holds(len(column)):
        return np.asarray(column[rows])
    size = max(scratch.part_rows(), -(-len(column) // _MOST))
    records = np.dtype(
        [("to", np.min_scalar_type(len(rows))), ("of", np.min_scalar_type(len(column)))]
    )
    waiting = SpillPartitions(scratch, records, max(-(-len(column) // size), 1))
    for part in slices(len(rows)):
        batch = np.empty(part.stop - part.start, dtype=records)
        batch["of"] = rows[part]
        batch["to"] = np.arange(part.start, part.stop)
        waiting.add(batch["of"] // size, batch)
    kind = np.dtype((column.dtype, column.shape[1:]))
    pieces = ((part["to"], {"": column[part["of"]]}) for part in waiting)
    return scatter(scratch, pieces, len(rows), {"": kind})[""]
