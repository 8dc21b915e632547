"""Reads, joins and reorders tables in blocks of rows."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa

from opboost_ops.tables.spill.arrays import Scratch, release_memory

#: Reads columns of a table, by default all, each time it is called: yields at least one block, all
#: with the same columns.
Blocks = Callable[[Sequence[str]], Iterator[pl.DataFrame]]

#: Cells per block, and its minimum and maximum rows. Memory of smaller blocks is reused soon.
CELLS, MIN_ROWS, MAX_ROWS = 2**23, 2**16, 2**17

#: Maximum number of partitions.
_MAX_PARTITIONS = 4096

#: Name of an auxiliary column that differs from all others.
_PLACE = " place"


def rows_of_block(columns: int) -> int:
    """Return the maximum number of rows of a block with some number of columns."""
    return min(MAX_ROWS, max(MIN_ROWS, CELLS // max(columns, 1)))


def blocks_of(table: pa.Table) -> Blocks:
    """Return the blocks of a table in memory, or mapped from its file."""

    def read(columns: Sequence[str]) -> Iterator[pl.DataFrame]:
        selected = table.select(list(columns)) if columns else table
        rows = rows_of_block(table.num_columns)
        for begin in range(0, max(selected.num_rows, 1), rows):
            yield pl.DataFrame(_without_views(selected.slice(begin, rows)))
            release_memory()

    return read


def _without_views(block: pa.Table) -> pa.Table:
    """Convert string views to text: polars cannot read those that Arrow before 25 creates."""
    for i, field in enumerate(block.schema):
        if pa.types.is_string_view(field.type):
            text = block.column(i).cast(pa.large_string())
            block = block.set_column(i, field.name, text)
    return block


def join_blocks(
    own: Mapping[str, np.ndarray],
    others: Mapping[str, pa.Table],
    last: Mapping[str, np.ndarray],
) -> Iterator[pa.Table]:
    """Yield joined blocks of columns with equal rows; at least one block.

    Args:
        own: The party's own columns by name, shape (n,) each.
        others: Opened rows by party; their columns become ``party.column``.
        last: Columns that come last, by name, shape (n,) each; at least one.
    """
    rows = len(next(iter(last.values())))
    arrays = {name: pa.array(values) for name, values in {**own, **last}.items()}
    block_rows = rows_of_block(len(arrays) + sum(table.num_columns for table in others.values()))
    for begin in range(0, max(rows, 1), block_rows):
        columns = {name: arrays[name].slice(begin, block_rows) for name in own}
        for party, table in others.items():
            block = table.slice(begin, block_rows)
            columns |= {f"{party}.{name}": block.column(name) for name in block.column_names}
        columns |= {name: arrays[name].slice(begin, block_rows) for name in last}
        yield pa.table(columns)


def reorder(
    scratch: Scratch, pieces: Iterable[tuple[np.ndarray, pa.Table]], rows: int
) -> Iterator[pa.Table]:
    """Yield the rows of tables in the order of their places, in partitions.

    Args:
        scratch: The spill space; rows that fit into memory form a single partition.
        pieces: Places, integers, shape (k,), and a table of k rows; at least one piece, all with
            the same columns. Together they contain each place from 0 exactly once.
        rows: Total number of rows.
    """
    if scratch.holds(rows):
        placed = [table.append_column(_PLACE, pa.array(places)) for places, table in pieces]
        yield _sorted_by_place(placed)
        return
    size = max(scratch.part_rows(), -(-rows // _MAX_PARTITIONS))
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
    for spans_of_partition in spans:
        yield _sorted_by_place([_unpacked(file, *span) for span in spans_of_partition])
        release_memory()


def _sorted_by_place(tables: list[pa.Table]) -> pa.Table:
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
    single_threaded = pa.ipc.IpcReadOptions(use_threads=False)
    with pa.ipc.open_stream(pa.py_buffer(raw), options=single_threaded) as stream:
        return stream.read_all()
