"""How a feature holder's rows are packed, by what is declared alone."""

from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa

from opboost_ops.config.columns import Column
from opboost_ops.exchange.encoding import narrow_integers
from opboost_ops.exchange.sealed.row_format import RowFormat
from opboost_ops.exchange.sealed.sealing import RowKind


class Rows:
    """The rows of one kind of a feature holder.

    Args:
        kind: Ranks, values, or cells between thresholds.
        columns: Those in a row.
        thresholds: Of cells, the thresholds between them, by column.
    """

    def __init__(
        self,
        kind: RowKind,
        columns: Sequence[Column],
        thresholds: Mapping[str, Sequence[float]] | None = None,
    ) -> None:
        self.kind = kind
        self._columns = columns
        #: What has the code 1.
        self._first: list[int] = []
        sizes = []
        for column in columns:
            if kind == "routes":
                assert thresholds is not None
                self._first.append(0)
                sizes.append(len(thresholds[column.name]) + 1)
                continue
            outputs = column.mechanism.channel(column.domain).outputs
            least, most = int(outputs.min()), int(outputs.max())
            self._first.append(1 if kind == "ranks" else least)
            sizes.append(max(column.domain.size, most - least + 1))
        self.format = RowFormat(tuple(sizes))

    def pack(self, table: pa.Table, rows: slice) -> np.ndarray:
        """Some rows, packed, uint8, shape (k, width).

        Args:
            table: Ranks, values or cells of all rows, by column.
            rows: Which.
        """
        some = table.slice(rows.start, rows.stop - rows.start)
        codes = [
            narrow_integers(some, column.name).astype(np.int64) - first + 1
            for column, first in zip(self._columns, self._first, strict=True)
        ]
        return (
            self.format.pack(codes)
            if codes
            else np.zeros((some.num_rows, self.format.width), np.uint8)
        )

    def unpack(self, packed: np.ndarray) -> dict[str, np.ndarray]:
        """Ranks, values or cells by column, shape (k,) each.

        What is outside of what is declared is clipped, so that no run depends on a single row.

        Args:
            packed: uint8, shape (k, width).
        """
        codes = self.format.unpack(packed)
        return {
            column.name: np.clip(code.astype(np.int64), 1, size) + (first - 1)
            for column, first, size, code in zip(
                self._columns, self._first, self.format.sizes, codes, strict=True
            )
        }
