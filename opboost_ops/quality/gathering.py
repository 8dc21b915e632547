"""Few rows of a table that is read block by block, of which the same holds as of all of them."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Protocol

import numpy as np
import polars as pl
import pyarrow as pa

from opboost_ops.quality.report import Result
from opboost_ops.scratch.arrays import Scratch
from opboost_ops.scratch.parts import Dealt

#: Parts of hashes where they are more than memory holds, a power of two.
_PARTS = 256

Expectation = Mapping[str, Any]

#: Reads columns of a table, all of them when none is named, as often as it is called: at least
#: one block, each with the same columns.
Blocks = Callable[[Sequence[str]], Iterator[pa.Table]]


class Gathering(Protocol):
    """What is kept of the blocks for one expectation."""

    def add(self, block: pa.Table) -> None:
        """Take what is needed of a block."""

    def table(self) -> pa.Table:
        """The table of which to ask the expectation."""

    def told(self, result: Result) -> Result:
        """What the result for that table says of the whole one."""


def gathering(
    expectation: Expectation, schema: pa.Schema, read: Blocks, scratch: Scratch | None = None
) -> Gathering | None:
    """What to keep for an expectation; None if few rows cannot answer it.

    Args:
        expectation: Its configuration.
        schema: The table's.
        read: The table, where a second look at some of it is needed.
        scratch: Where that waits which is more than it holds; all is in memory when absent.
    """
    kind, kwargs = expectation["type"], expectation["kwargs"]
    if "row_condition" in kwargs:
        return None
    if kind in _ROW_COUNTS:
        return _Height()
    column = kwargs.get("column")
    if expectation.get("indicator") is not None or column not in schema.names:
        return None
    held = schema.field(column).type
    number = pa.types.is_floating(held) or pa.types.is_integer(held)
    if kind in _EXTREMES and (number or is_text(held)):
        return _Values(column, held, _extremes)
    if kind in _TYPES and number:
        return _Values(column, held, lambda values: values.head(1))
    if kind == _COUNT and (number or is_text(held)):
        bounds: Any = (kwargs.get("min_value") or 0, kwargs.get("max_value") or 0)
        if all(isinstance(bound, int) for bound in bounds):
            enough = max(bounds) + 1
            return _Values(column, held, lambda values: values.unique().head(enough))
    if kind == _UNIQUE and (pa.types.is_integer(held) or is_text(held)):
        return _Unique(column, Repeated(column, held, read, scratch), kwargs.get("mostly", 1))
    return None


def is_text(kind: pa.DataType) -> bool:
    """Whether a column is of strings."""
    checks = (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view)
    return any(check(kind) for check in checks)


def is_mostly(rows: int, unexpected: int, missing: int, mostly: float) -> bool:
    """Great Expectations' verdict on counts of rows.

    Args:
        rows: All.
        unexpected: Those that break the expectation.
        missing: Those that it passes over.
        mostly: The least share of the others that must keep it.
    """
    looked_at = float(rows - missing)
    return looked_at == 0 or (looked_at - float(unexpected)) / looked_at >= mostly


_ROW_COUNTS = {"expect_table_row_count_to_equal", "expect_table_row_count_to_be_between"}
_EXTREMES = {"expect_column_min_to_be_between", "expect_column_max_to_be_between"}
_TYPES = {"expect_column_values_to_be_in_type_list", "expect_column_values_to_be_of_type"}
_COUNT = "expect_column_unique_value_count_to_be_between"
_UNIQUE = "expect_column_values_to_be_unique"


class _Height:
    """How many rows there are, as rows of a byte."""

    def __init__(self) -> None:
        self._rows = 0

    def add(self, block: pa.Table) -> None:
        self._rows += block.num_rows

    def table(self) -> pa.Table:
        return pa.table({"row": np.zeros(self._rows, dtype=np.uint8)})

    def told(self, result: Result) -> Result:
        return result


class _Values:
    """Some values of a column, and whether any is missing: that decides pandas' type."""

    def __init__(
        self, column: str, kind: pa.DataType, keep: Callable[[pl.Series], pl.Series]
    ) -> None:
        self._column, self._kind, self._keep = column, kind, keep
        self._kept: pl.Series | None = None
        self._gaps = False

    def add(self, block: pa.Table) -> None:
        values = _series(block.column(self._column))
        self._gaps |= values.null_count() > 0
        kept = self._keep(values.drop_nulls())
        self._kept = kept if self._kept is None else self._keep(pl.concat([self._kept, kept]))

    def table(self) -> pa.Table:
        kept = [] if self._kept is None else self._kept.to_list()
        values = [*kept, None] if self._gaps else kept
        return pa.table({self._column: pa.array(values, self._kind)})

    def told(self, result: Result) -> Result:
        return result


class Repeated:
    """The rows whose value may be another row's, too: by a hash, eight bytes a row.

    Args:
        column: Which one.
        kind: Its type.
        read: The table, of which this column may be read again.
        scratch: See `gathering`.
    """

    def __init__(
        self, column: str, kind: pa.DataType, read: Blocks, scratch: Scratch | None = None
    ) -> None:
        self._column, self._kind, self._read = column, kind, read
        self._hashes: list[np.ndarray] = []
        self._scratch = scratch
        self._waiting: Dealt | None = None

    def add(self, values: pl.Series) -> None:
        """Take a block's values, without those that are missing."""
        self._hashes.append(values.hash().to_numpy())
        if self._scratch and not self._scratch.holds(sum(map(len, self._hashes))):
            self._waiting = self._waiting or Dealt(self._scratch, np.dtype(np.uint64), _PARTS)
            self._deal(self._waiting)

    def _deal(self, waiting: Dealt) -> None:
        for hashes in self._hashes:
            waiting.add(hashes // np.uint64(2**64 // _PARTS), hashes)
        self._hashes = []

    def _repeated(self) -> np.ndarray:
        """The hashes that come more than once, rising; those of a part lie below the next's."""
        parts: Iterable[np.ndarray] = [np.concatenate(self._hashes)] if not self._waiting else ()
        if self._waiting:
            self._deal(self._waiting)
            parts = self._waiting
        self._hashes, found = [], []
        for hashes in parts:
            hashes.sort()
            found.append(np.unique(hashes[1:][hashes[1:] == hashes[:-1]]))
        return np.concatenate(found)

    def table(self) -> pa.Table:
        """The rows, in a table of the one column."""
        repeated = self._repeated()
        found: list[pa.Array] = []
        for block in self._read((self._column,)) if len(repeated) else ():
            values = _series(block.column(0)).drop_nulls()
            same = values.filter(values.hash().is_in(pl.Series(repeated)))
            found.append(same.to_arrow().cast(self._kind))
        return pa.table({self._column: pa.chunked_array(found, self._kind)})


class _Unique:
    """Whether values are unique: asked of those rows alone that may not be."""

    def __init__(self, column: str, repeated: Repeated, mostly: float) -> None:
        self._column, self._repeated, self._mostly = column, repeated, mostly
        self._rows = self._gaps = 0

    def add(self, block: pa.Table) -> None:
        self._rows += block.num_rows
        values = _series(block.column(self._column))
        self._gaps += values.null_count()
        self._repeated.add(values.drop_nulls())

    def table(self) -> pa.Table:
        return self._repeated.table()

    def told(self, result: Result) -> Result:
        if not result.evaluated:
            return result
        unexpected = result.unexpected or 0
        success = is_mostly(self._rows, unexpected, self._gaps, self._mostly)
        return replace(
            result, success=success, rows=self._rows, unexpected=unexpected, missing=self._gaps
        )


def _series(column: pa.ChunkedArray) -> pl.Series:
    values = pl.Series("", column)
    # To pandas NaN is a missing value.
    return values.fill_nan(None) if values.dtype.is_float() else values


def _extremes(values: pl.Series) -> pl.Series:
    found = pl.Series("", [values.min(), values.max()], dtype=values.dtype)
    return found.drop_nulls()
