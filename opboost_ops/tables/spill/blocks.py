"""Tables that are read, or joined, a block of rows at a time."""

from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np
import polars as pl
import pyarrow as pa

from opboost_ops.tables.spill.arrays import release_memory

#: Reads columns of a table, all of them when none is named, as often as it is called: at least
#: one block, each with the same columns.
Blocks = Callable[[Sequence[str]], Iterator[pl.DataFrame]]

#: Cells of a block, and its least and most rows: what a smaller one needs is soon used again.
CELLS, FEWEST, MOST = 2**23, 2**16, 2**17


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
