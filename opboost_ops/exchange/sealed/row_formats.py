"""How a feature holder's rows are packed, by what is declared alone."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from opboost_ops.config.columns import Column
from opboost_ops.exchange.encoding import narrow_integers


@dataclass(frozen=True)
class RowFormat:
    """The columns of a row.

    Attributes:
        sizes: How many different values each column may have, as declared. A value's code is its
            number from 1; 0 stands for none.
    """

    sizes: tuple[int, ...]

    @property
    def width(self) -> int:
        """Bytes of a row; one that is empty is a byte of zeros."""
        return max(-(-sum(size.bit_length() for size in self.sizes) // 8), 1)

    def pack(self, columns: Sequence[np.ndarray]) -> np.ndarray:
        """Rows of codes, uint8, shape (n, width).

        Args:
            columns: Codes of each column, integers from 0 to its size, shape (n,).
        """
        rows = len(columns[0]) if columns else 0
        packed = np.zeros((rows, self.width), dtype=np.uint8)
        for (first, last, shift), column in zip(self._places(), columns, strict=True):
            value = column.astype(np.uint64) << np.uint64(shift)
            for at in range(first, last + 1):
                packed[:, at] |= (value >> np.uint64(8 * (last - at))).astype(np.uint8)
        return packed

    def unpack(self, packed: np.ndarray) -> list[np.ndarray]:
        """The codes of each column, in the smallest type, shape (n,).

        Args:
            packed: uint8, shape (n, width).
        """
        columns = []
        for (first, last, shift), size in zip(self._places(), self.sizes, strict=True):
            value = np.zeros(len(packed), dtype=np.uint64)
            for at in range(first, last + 1):
                value = value << np.uint64(8) | packed[:, at]
            mask = (1 << size.bit_length()) - 1
            code = (value >> np.uint64(shift)) & np.uint64(mask)
            columns.append(code.astype(np.min_scalar_type(mask)))
        return columns

    def _places(self) -> list[tuple[int, int, int]]:
        """First and last byte of each column, and by how many bits it is shifted in the last."""
        places, end = [], 0
        for size in self.sizes:
            begin, end = end, end + size.bit_length()
            last = max(end - 1, begin) // 8
            places.append((begin // 8, last, 8 * (last + 1) - end))
        return places


class Rows:
    """The rows of one kind of a feature holder.

    Args:
        kind: Ranks, values, or cells between thresholds.
        columns: Those in a row.
        thresholds: Of cells, the thresholds between them, by column.
    """

    def __init__(
        self,
        kind: str,
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
