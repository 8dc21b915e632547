"""Rows of whole tables, texts among them, put into another order a part at a time."""

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa

from opboost_ops.tables.spill.arrays import Scratch, release_memory

#: Parts at most.
_MOST = 4096

#: No column of ours has this name.
_PLACE = " place"


def in_order(
    scratch: Scratch, pieces: Iterable[tuple[np.ndarray, pa.Table]], rows: int
) -> Iterator[pa.Table]:
    """The rows of tables in the order of their places, a part after the other.

    Args:
        scratch: Where they wait; those that it holds are one part.
        pieces: Places, integers, shape (k,), and a table of k rows; at least one piece, all with
            the same columns. Among them each place from 0 is there once.
        rows: How many there are in all.
    """
    if scratch.holds(rows):
        placed = [table.append_column(_PLACE, pa.array(places)) for places, table in pieces]
        yield _ordered(placed)
        return
    size = max(scratch.part_rows(), -(-rows // _MOST))
    spans: list[list[tuple[int, int]]] = [[] for _ in range(-(-rows // size))]
    file, end = scratch.file(), 0
    for places, table in pieces:
        part = (places // size).astype(np.uint16)
        order = np.argsort(part, kind="stable")
        whole = table.append_column(_PLACE, pa.array(places)).take(order)
        begin = 0
        for at, count in enumerate(np.bincount(part, minlength=len(spans)).tolist()):
            if count:
                raw = _packed(whole.slice(begin, count))
                spans[at].append((end, len(raw)))
                begin, end = begin + count, end + len(raw)
                while raw:
                    raw = raw[file.write(raw) :]
        del whole
        release_memory()
    for several in spans:
        yield _ordered([_unpacked(file, *span) for span in several])
        release_memory()


def _ordered(tables: list[pa.Table]) -> pa.Table:
    whole = pa.concat_tables(tables)
    tables.clear()
    order = np.argsort(whole.column(_PLACE).to_numpy())
    return whole.drop_columns([_PLACE]).take(order)


def _packed(table: pa.Table) -> memoryview:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table.combine_chunks())
    return memoryview(sink.getvalue())


def _unpacked(file: Any, begin: int, size: int) -> pa.Table:
    raw = bytearray(size)
    left = memoryview(raw)
    file.seek(begin)
    while left:
        left = left[file.readinto(left) :]
    alone = pa.ipc.IpcReadOptions(use_threads=False)
    with pa.ipc.open_stream(pa.py_buffer(raw), options=alone) as stream:
        return stream.read_all()
