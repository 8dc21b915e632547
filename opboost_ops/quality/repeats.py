"""Values that more than one row has, found by hashes of eight bytes per row."""

from collections.abc import Iterable

import numpy as np
import polars as pl

from opboost_ops.tables.spill.arrays import Scratch
from opboost_ops.tables.spill.blocks import Blocks
from opboost_ops.tables.spill.parts import SpillPartitions

#: Partitions of hashes where they are more than memory holds, a power of two.
_PARTITIONS = 256


class Repeats:
    """Counts the rows whose value another row has, too.

    Args:
        column: Its name.
        read: The table: rows with the same hash are read again and compared.
        spill: Where hashes are put beyond what it holds; all are in memory when absent.
    """

    def __init__(self, column: str, read: Blocks, spill: Scratch | None = None) -> None:
        self._column, self._read, self._spill = column, read, spill
        self._hashes: list[np.ndarray] = []
        self._spilled: SpillPartitions | None = None

    def add(self, values: pl.Series) -> None:
        """Take a block's values."""
        self._hashes.append(_present(values).hash().to_numpy())
        if self._spill and not self._spill.holds(sum(map(len, self._hashes))):
            self._spilled = self._spilled or SpillPartitions(
                self._spill, np.dtype(np.uint64), _PARTITIONS
            )
            self._partition(self._spilled)

    def _partition(self, spilled: SpillPartitions) -> None:
        for hashes in self._hashes:
            spilled.add(hashes // np.uint64(2**64 // _PARTITIONS), hashes)
        self._hashes = []

    def count(self) -> int:
        """How many rows have a value that another row has, too."""
        partitions: Iterable[np.ndarray]
        if self._spilled:
            self._partition(self._spilled)
            partitions = self._spilled
        else:
            partitions = [np.concatenate(self._hashes)]
        self._hashes, repeats = [], []
        for hashes in partitions:
            # Polars sorts twice as fast as numpy.
            hashes = pl.Series(hashes).sort().to_numpy()
            repeats.append(np.unique(hashes[1:][hashes[1:] == hashes[:-1]]))
        repeated = pl.Series(np.concatenate(repeats))
        if not len(repeated):
            return 0
        suspects = []
        for block in self._read((self._column,)):
            values = _present(block.to_series())
            suspects.append(values.filter(values.hash().is_in(repeated.implode())))
        return int(pl.concat(suspects).is_duplicated().sum())


def _present(values: pl.Series) -> pl.Series:
    values = values.drop_nulls()
    if values.dtype in (pl.Categorical, pl.Enum):
        # Blocks may number their categories in different ways.
        return values.cast(pl.String)
    return values.drop_nans() if values.dtype.is_float() else values
