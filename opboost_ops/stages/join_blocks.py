"""Own columns and others' parts, row by row, as one table that is made block by block."""

from collections.abc import Iterator, Mapping

import numpy as np
import pyarrow as pa

from opboost_ops.scratch.blocks import rows_of_block
from opboost_ops.stages.home import Rows


def join_blocks(
    own: Mapping[str, np.ndarray],
    others: Mapping[str, pa.Table],
    last: Mapping[str, np.ndarray],
) -> Rows:
    """Columns of the same rows.

    Args:
        own: The party's, shape (n,) each, by name.
        others: Opened rows by party; their columns are named ``party.column``.
        last: What comes behind them, shape (n,) each, by name; at least one column.
    """
    rows = len(next(iter(last.values())))
    arrays = {name: pa.array(values) for name, values in {**own, **last}.items()}

    def block(begin: int, size: int) -> pa.Table:
        columns = {name: arrays[name].slice(begin, size) for name in own}
        for party, table in others.items():
            some = table.slice(begin, size)
            columns |= {f"{party}.{name}": some.column(name) for name in some.column_names}
        return pa.table({**columns, **{name: arrays[name].slice(begin, size) for name in last}})

    def blocks() -> Iterator[pa.Table]:
        for begin in range(0, max(rows, 1), most):
            yield block(begin, min(most, rows - begin))

    schema = block(0, 0).schema
    most = rows_of_block(len(schema))
    return Rows(schema, blocks)
