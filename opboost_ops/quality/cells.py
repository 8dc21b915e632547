"""A column's cells in one block, as checks look at them: each look is taken once for all of them.

What is missing, and what numbers are compared with, is what it is in pandas, where Great
Expectations looks: NaN is a missing value, and integers of which one is missing are floats.
"""

import math
from functools import cached_property
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa

#: Numbers up to this are counted by their place in an array.
_FEW = 2**16

_ROWS_OF_A_GLANCE = 1024


class Cells:
    """The cells of a column in a block.

    Args:
        column: The cells, shape (n,).
    """

    def __init__(self, column: pa.ChunkedArray) -> None:
        self._column = column
        self.rows: int = len(column)

    @cached_property
    def values(self) -> pl.Series:
        """As polars has them."""
        return pl.Series("", self._column)

    @cached_property
    def nulls(self) -> int:
        """Rows without a value."""
        if pa.types.is_dictionary(self._column.type):  # One of its values may be a gap.
            return self.values.null_count()
        return int(self._column.null_count)

    @cached_property
    def nans(self) -> int:
        """Rows whose value is no number."""
        values = self.values
        return int(values.is_nan().sum()) if values.dtype.is_float() else 0

    @property
    def missing(self) -> int:
        """Rows that pandas has no value of."""
        return self.nulls + self.nans

    @cached_property
    def present(self) -> pl.Series:
        """The values that are there."""
        values = self.values.drop_nulls() if self.nulls else self.values
        return values.drop_nans() if self.nans else values

    @cached_property
    def compared(self) -> pl.Series:
        """The same as pandas has them."""
        present = self.present
        return present.cast(pl.Float64) if self.nulls and present.dtype.is_integer() else present

    @cached_property
    def extremes(self) -> tuple[Any, Any] | None:
        """Least and greatest number; None if there is none."""
        values = self.compared
        return (values.min(), values.max()) if len(values) else None

    @cached_property
    def counts(self) -> tuple[np.ndarray, np.ndarray]:
        """The different numbers in order, float64, and how many rows have each, int64."""
        values = self.present
        if self.extremes and self.extremes[0] >= 0 and self.extremes[1] < _FEW:
            numbers = values.to_numpy()
            places = numbers.astype(np.int64)
            if values.dtype.is_integer() or np.array_equal(places, numbers):
                found = np.bincount(places)
                present = np.flatnonzero(found)
                return present.astype(np.float64), found[present]
        return np.unique(values.cast(pl.Float64).to_numpy(), return_counts=True)

    def outside(self, least: float, greatest: float) -> int:
        """How many numbers are less than one, or greater than another, or not to be compared."""
        if self.extremes is None:
            return 0
        values = self.compared
        if values.dtype == pl.UInt64:
            # Here integers are compared as such.
            bounds = max(0, math.ceil(least)), min(2**64 - 1, math.floor(greatest))
            return len(values) - int(values.is_between(*bounds).sum())
        low, high = (float(extreme) for extreme in self.extremes)
        if least <= low and high <= greatest:
            return 0
        numbers = values.cast(pl.Float64).to_numpy()
        return len(values) - int(np.count_nonzero((numbers >= least) & (numbers <= greatest)))

    def different(self, enough: int) -> pl.Series:
        """Values that differ: all that there are, or some if there are so many."""
        glance = self.compared.head(_ROWS_OF_A_GLANCE).unique()
        found = glance if len(glance) >= enough else self.compared.unique()
        return _named(found.head(enough))

    def by_name(self) -> pl.DataFrame:
        """The different values, and how many rows have each, as columns ``value`` and ``rows``."""
        counted = self.present.alias("value").value_counts(name="rows")
        return counted.with_columns(_named(counted.get_column("value")))


def _named(values: pl.Series) -> pl.Series:
    # Blocks may number their categories in different ways.
    return values.cast(pl.String) if values.dtype in (pl.Categorical, pl.Enum) else values
