"""How the columns of a row are packed: by declared widths alone, so that nothing varies with data.

>>> import numpy as np
>>> packed = RowFormat((10, 3)).pack([np.array([1, 10]), np.array([3, 1])])
>>> packed.tolist()
[[28], [164]]
>>> [column.tolist() for column in RowFormat((10, 3)).unpack(packed)]
[[1, 10], [3, 1]]
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np


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
        found, end = [], 0
        for size in self.sizes:
            begin, end = end, end + size.bit_length()
            last = max(end - 1, begin) // 8
            found.append((begin // 8, last, 8 * (last + 1) - end))
        return found
