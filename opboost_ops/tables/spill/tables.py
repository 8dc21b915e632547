"""Tables read, joined and put into another order a block of rows at a time."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa

from opboost_ops.tables.spill.arrays import Scratch, release_memory

#: Reads columns of a table, all of them when none is named, as often as it is called: at least
#: one block, each with the same columns.
Blocks = Callable[[Sequence[str]], Iterator[pl.DataFrame]]

#: Cells of a block, and its least and most rows: what a smaller one needs is soon used again.
CELLS, FEWEST, MOST = 2**23, 2**16, 2**17

#: Parts at most.
_MOST = 4096

#: No column of ours has this name.
_PLACE = " place"


def rows_of_block(columns: int) -> int:
    """How many rows a block has at most.

    Args:
        columns: How many columns it has.
    """
    return min(MOST, max(FEWEST, CELLS // max(columns, 1)))


def blocks_of(table: pa.Table) -> Blocks:
    """The blocks of a table that is in memory, or mapped from its file."""

    def read(columns: Sequence[str]) -> Iterator[pl.DataFrame]:
        selected = table.select(list(columns)) if columns else table
        rows = rows_of_block(table.num_columns)
        for begin in range(0, max(selected.num_rows, 1), rows):
            yield pl.DataFrame(_without_views(selected.slice(begin, rows)))
            release_memory()

    return read


def _without_views(block: pa.Table) -> pa.Table:
    """Views of text as text: polars cannot read those that Arrow before 25 makes in memory."""
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
    """Blocks of columns of the same rows, at least one.

    Args:
        own: The party's, shape (n,) each, by name.
        others: Opened rows by party; their columns are named ``party.column``.
        last: What comes behind them, shape (n,) each, by name; at least one column.
    """
    rows = len(next(iter(last.values())))
    arrays = {name: pa.array(values) for name, values in {**own, **last}.items()}
    most = rows_of_block(len(arrays) + sum(table.num_columns for table in others.values()))
    for begin in range(0, max(rows, 1), most):
        columns = {name: arrays[name].slice(begin, most) for name in own}
        for party, table in others.items():
            some = table.slice(begin, most)
            columns |= {f"{party}.{name}": some.column(name) for name in some.column_names}
        yield pa.table({**columns, **{name: arrays[name].slice(begin, most) for name in last}})


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
