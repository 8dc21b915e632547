"""Own columns and others' parts, row by row, as one table that is made block by block."""

from collections.abc import Iterator, Mapping

import numpy as np
import pyarrow as pa

from opboost_ops.errors import ArtifactError
from opboost_ops.exchange.artifact import Artifact
from opboost_ops.scratch.blocks import rows_of_block
from opboost_ops.stages.home import Rows


def joined(
    own: Mapping[str, np.ndarray],
    received: Mapping[str, Artifact | pa.Table],
    last: Mapping[str, np.ndarray],
) -> Rows:
    """Columns of the same rows; of what was received, no more than a part is in memory, packed.

    Args:
        own: The party's, shape (n,) each, by name.
        received: What others have sent, or was picked of it, by party; its columns are named
            ``party.column``.
        last: What comes behind them, shape (n,) each, by name; at least one column.
    """
    rows = len(next(iter(last.values())))
    readers = {party: Reader(found) for party, found in received.items()}
    arrays = {name: pa.array(values) for name, values in {**own, **last}.items()}

    def block(begin: int, size: int) -> pa.Table:
        def mine(names: Mapping[str, np.ndarray]) -> dict[str, pa.Array]:
            return {name: arrays[name].slice(begin, size) for name in names}

        columns = dict(mine(own))
        for party, reader in readers.items():
            table = reader.take(size)
            columns |= {f"{party}.{name}": table.column(name) for name in table.column_names}
        return pa.table({**columns, **mine(last)})

    def blocks() -> Iterator[pa.Table]:
        for begin in range(0, max(rows, 1), most):
            yield block(begin, min(most, rows - begin))

    schema = block(0, 0).schema
    most = rows_of_block(len(schema))
    return Rows(schema, blocks)


class Reader:
    """The rows of an artifact's table, or of what was picked of it, in their order.

    Args:
        found: It; no more than a part is in memory, packed.
    """

    def __init__(self, found: Artifact | pa.Table) -> None:
        self._parts: Iterator[pa.Table] = iter((found,))
        self._what = "What was picked of a release"
        if isinstance(found, Artifact):
            self._parts, self._what = found.pieces(), found.manifest.reference
        self._left = next(self._parts)

    def take(self, rows: int) -> pa.Table:
        """The next rows, with all columns also where there are none.

        Args:
            rows: How many.

        Raises:
            ArtifactError: There are not so many.
        """
        found: list[pa.Table] = []
        while not found or rows:
            if not self._left.num_rows and rows:
                # Not while it is still there.
                self._left = self._left.schema.empty_table()
                following = next(self._parts, None)
                if following is None:
                    raise ArtifactError(f"{self._what} has fewer rows.", "Trigger a new run.")
                self._left = following
            found.append(self._left.slice(0, rows))
            self._left = self._left.slice(found[-1].num_rows)
            rows -= found[-1].num_rows
        return pa.concat_tables(found)
