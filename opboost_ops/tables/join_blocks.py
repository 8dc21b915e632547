"""Own columns and others' parts, row by row, as one table that is made block by block."""

from collections.abc import Iterator, Mapping

import numpy as np
import pyarrow as pa

from opboost_ops.tables.spill.blocks import rows_of_block


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
