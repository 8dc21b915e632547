"""A profile of a table: what each expectation of a suite measures, in one streaming pass."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa

from opboost_ops.quality.repeats import Repeats
from opboost_ops.scratch.arrays import Scratch
from opboost_ops.scratch.blocks import Blocks

Expectation = Mapping[str, Any]

#: Values at the start of a block that usually decide how many different ones there are.
_HEAD = 1024

_TEXT = (pl.String, pl.Categorical, pl.Enum)


@dataclass(frozen=True)
class Measurement:
    """One row of a profile: a number, and the interval in which it must be.

    Attributes:
        value: What was measured; NaN where the column's type does not allow it.
        least: Lower limit.
        most: Upper limit.
        rows: Rows looked at, where rows are counted.
        unexpected: Rows that break the expectation.
        missing: Rows without a value, which are passed over.
    """

    value: float
    least: float = -math.inf
    most: float = math.inf
    rows: int | None = None
    unexpected: int | None = None
    missing: int | None = None


def profile(
    expectations: Sequence[Expectation], read: Blocks, spill: Scratch | None = None
) -> list[Measurement]:
    """Measure a table by expectations of the built-in suites.

    Args:
        expectations: Great Expectations' configurations, and where one is about a derived column,
            the ``indicator``.
        read: The table.
        spill: Where hashes of IDs are put beyond what it holds in memory.

    Returns:
        A measurement an expectation.
    """
    stream = read(())
    block = next(stream)
    schema = pl.Schema(pl.DataFrame(block.schema.empty_table()).schema)
    columns: dict[str, _Column] = {}
    measures: list[_Measure] = []
    for expectation in expectations:
        name = expectation["kwargs"].get("column")
        column = None
        if name in schema:
            column = columns.setdefault(name, _Column(name, schema[name]))
        measures.append(_measure(expectation, column, read, spill))
    while True:
        _add(block, columns, measures)
        del block  # Before the next one is read.
        if (following := next(stream, None)) is None:
            return [measure.measurement() for measure in measures]
        block = following
        del following


def _add(block: pa.Table, columns: Mapping[str, "_Column"], measures: Sequence["_Measure"]) -> None:
    frame = pl.DataFrame(block.select(list(columns) or block.column_names[:1]))
    counting: list[_Column | _Measure] = [*columns.values(), *measures]
    computed = [list(each.expressions()) for each in counting]
    named = {
        f"{i} {j}": expression
        for i, several in enumerate(computed)
        for j, expression in enumerate(several)
    }
    values = iter(frame.select(**named).row(0) if named else ())
    for each, several in zip(counting, computed, strict=True):
        each.add(list(islice(values, len(several))))
    for measure in measures:
        measure.look(frame)


class _Column:
    """Counts of a column: NaN is a missing value, as in pandas."""

    def __init__(self, name: str, kind: pl.DataType) -> None:
        self.name, self.kind = name, kind
        self.rows = self.nulls = self.nans = 0

    @property
    def numeric(self) -> bool:
        """Whether it holds numbers; a column of nothing but gaps may."""
        return self.kind.is_numeric() or self.kind in (pl.Boolean, pl.Null)

    @property
    def present(self) -> pl.Expr:
        """Which rows have a value."""
        values = pl.col(self.name)
        there = values.is_not_null()
        return there & values.is_not_nan() if self.kind.is_float() else there

    def expressions(self) -> Sequence[pl.Expr]:
        values = pl.col(self.name)
        nans = values.is_nan().sum() if self.kind.is_float() else pl.lit(0)
        return pl.len(), values.null_count(), nans

    def add(self, values: Sequence[Any]) -> None:
        self.rows += values[0]
        self.nulls += values[1]
        self.nans += values[2]


class _Measure:
    """What is counted for one expectation, block by block; this one cannot be measured."""

    def expressions(self) -> Sequence[pl.Expr]:
        """What to compute of a block, a value each."""
        return ()

    def add(self, values: Sequence[Any]) -> None:
        """Take what was computed of a block."""

    def look(self, frame: pl.DataFrame) -> None:
        """Look at a block's cells."""

    def measurement(self) -> Measurement:
        """The whole table's."""
        return Measurement(math.nan)


class _Height(_Measure):
    """The number of rows."""

    def __init__(self, expected: int) -> None:
        self._expected, self._rows = expected, 0

    def expressions(self) -> Sequence[pl.Expr]:
        return (pl.len(),)

    def add(self, values: Sequence[Any]) -> None:
        self._rows += values[0]

    def measurement(self) -> Measurement:
        return Measurement(self._rows, self._expected, self._expected)


class _Fact(_Measure):
    """Something that is so or not, whatever the rows."""

    def __init__(self, holds: bool) -> None:
        self._holds = holds

    def measurement(self) -> Measurement:
        return Measurement(float(self._holds), 1)


class _Share(_Measure):
    """The share of the rows that keep an expectation.

    Args:
        column: Its column.
        unexpected: Which rows break it; several where it takes the whole column to say which.
        mostly: The least share.
        passed_over: The missing values that are not judged: ``nulls``, ``nans``.
    """

    def __init__(
        self,
        column: _Column,
        unexpected: pl.Expr,
        mostly: float = 1,
        passed_over: Sequence[str] = ("nulls", "nans"),
    ) -> None:
        self._column, self._unexpected = column, unexpected
        self._mostly, self._passed_over = mostly, passed_over
        self._count = 0

    def expressions(self) -> Sequence[pl.Expr]:
        return (self._unexpected.sum(),)

    def add(self, values: Sequence[Any]) -> None:
        self._count += int(values[0] or 0)

    def measurement(self) -> Measurement:
        missing = sum(getattr(self._column, name) for name in self._passed_over)
        return self._share(self._count, missing)

    def _share(self, unexpected: int, missing: int) -> Measurement:
        judged = self._column.rows - missing
        share = (judged - unexpected) / judged if judged else 1.0
        return Measurement(
            share,
            self._mostly,
            rows=self._column.rows,
            unexpected=unexpected,
            missing=missing if self._passed_over else None,
        )


class _FloatClasses(_Share):
    """Classes of a column of floats, which are named as integers if all of them are whole."""

    def __init__(self, column: _Column, classes: Sequence[str]) -> None:
        values = pl.col(column.name)
        integers = values.fill_nan(None).cast(pl.Int64, strict=False)
        self._named = [
            (column.present & ~names.cast(pl.String).is_in(classes).fill_null(False)).sum()
            for names in (integers, values)
        ]
        self._broken = (column.present & (values != values.floor())).sum()
        self._counts = np.zeros(3, dtype=np.int64)
        super().__init__(column, pl.lit(False))

    def expressions(self) -> Sequence[pl.Expr]:
        return (*self._named, self._broken)

    def add(self, values: Sequence[Any]) -> None:
        self._counts += values

    def measurement(self) -> Measurement:
        whole, named, broken = self._counts.tolist()
        missing = self._column.nulls + self._column.nans
        return self._share(named if broken else whole, missing)


class _Extreme(_Measure):
    """The least value, or the greatest."""

    def __init__(self, column: _Column, kwargs: Mapping[str, Any], greatest: bool) -> None:
        values = pl.col(column.name)
        self._expression = values.max() if greatest else values.min()
        self._of_both = max if greatest else min
        self._limits = kwargs["min_value"], kwargs["max_value"]
        self._found: Any = None

    def expressions(self) -> Sequence[pl.Expr]:
        return (self._expression,)

    def add(self, values: Sequence[Any]) -> None:
        found = [each for each in (self._found, values[0]) if each is not None]
        self._found = self._of_both(found) if found else None

    def measurement(self) -> Measurement:
        value = math.nan if self._found is None else float(self._found)
        return Measurement(value, *self._limits)


class _Distinct(_Measure):
    """How many values differ; no more of them are kept than decide it."""

    def __init__(self, column: _Column, kwargs: Mapping[str, Any]) -> None:
        self._column = column
        self._least, self._most = kwargs["min_value"], kwargs.get("max_value")
        self._enough = max(self._least, (self._most or 0) + 1)
        self._found: set[Any] = set()

    def look(self, frame: pl.DataFrame) -> None:
        cells = frame.get_column(self._column.name)
        for part in (cells.head(_HEAD), cells):
            if len(self._found) < self._enough:
                part = part.drop_nulls()
                part = part.drop_nans() if part.dtype.is_float() else part
                # One more than is known makes a difference, whichever these are.
                different = part.unique().head(self._enough + len(self._found))
                self._found |= set(different.to_list())

    def measurement(self) -> Measurement:
        most = math.inf if self._most is None else self._most
        return Measurement(len(self._found), self._least, most)


class _Unique(_Share):
    """Values that another row has, too."""

    def __init__(self, column: _Column, repeats: Repeats) -> None:
        super().__init__(column, pl.lit(False))
        self._repeats = repeats

    def look(self, frame: pl.DataFrame) -> None:
        self._repeats.add(frame.get_column(self._column.name))

    def measurement(self) -> Measurement:
        missing = self._column.nulls + self._column.nans
        return self._share(self._repeats.count(), missing)


class _RankGap(_Measure):
    """Ranks between 1 and the highest that no row has, and rows without a rank."""

    def __init__(self, column: _Column) -> None:
        self._column = column
        self._ranks: set[Any] = set()

    def expressions(self) -> Sequence[pl.Expr]:
        return (pl.col(self._column.name).unique().implode(),)

    def add(self, values: Sequence[Any]) -> None:
        self._ranks.update(values[0])

    def measurement(self) -> Measurement:
        ranks = {rank for rank in self._ranks if rank is not None and rank == rank}
        missing = self._column.nulls + self._column.nans
        gaps = sum(rank != 1 and rank - 1 not in ranks for rank in ranks)
        return Measurement(gaps + missing, 0, 0)


def _measure(
    expectation: Expectation, column: _Column | None, read: Blocks, spill: Scratch | None
) -> _Measure:
    """How an expectation is measured.

    Raises:
        KeyError: No built-in suite has such an expectation.
    """
    kind, kwargs = expectation["type"], expectation["kwargs"]
    if kind == "expect_table_row_count_to_equal":
        return _Height(kwargs["value"])
    if kind == "expect_column_to_exist":
        return _Fact(column is not None)
    if column is None:
        return _Measure()
    if kind == "expect_column_values_to_be_in_type_list":
        return _Fact(str(column.kind).lower() in kwargs["type_list"])
    if kind == "expect_column_values_to_be_unique":
        return _Unique(column, Repeats(column.name, read, spill))
    if kind == "expect_column_unique_value_count_to_be_between":
        return _Distinct(column, kwargs)
    if kind in ("expect_column_min_to_be_between", "expect_column_max_to_be_between"):
        greatest = kind == "expect_column_max_to_be_between"
        return _Extreme(column, kwargs, greatest) if column.kind.is_integer() else _Measure()
    if kind == "expect_column_values_to_not_be_null":
        return _Share(column, ~column.present, kwargs.get("mostly", 1), ())
    indicator = expectation.get("indicator")
    if indicator == "rank_gap":
        return _RankGap(column) if column.numeric else _Measure()
    if indicator == "not_a_number":
        nans = pl.col(column.name).is_nan() if column.kind.is_float() else pl.lit(False)
        return _Share(column, nans, 1, ("nulls",)) if column.numeric else _Measure()
    if indicator == "class" and column.kind.is_float():
        return _FloatClasses(column, kwargs["value_set"])
    unexpected = _UNEXPECTED[indicator or kind](column, kwargs)
    if unexpected is None:
        return _Measure()
    return _Share(column, column.present & unexpected, kwargs.get("mostly", 1))


def _outside(column: _Column, kwargs: Mapping[str, Any]) -> pl.Expr | None:
    least, most = kwargs["min_value"], kwargs["max_value"]
    if not column.numeric:
        return None
    values = pl.col(column.name)
    beyond: list[pl.Expr] = []
    if column.kind.is_integer():
        # Integers are compared as such; a limit beyond their type needs no look.
        kind = np.iinfo(str(column.kind).lower())
        if least > kind.max or most < kind.min:
            return pl.lit(True)
        if least > kind.min:
            beyond.append(values < math.ceil(least))
        if most < kind.max:
            beyond.append(values > math.floor(most))
    else:
        numbers = values.cast(pl.Float64)
        beyond = [numbers < least, numbers > most]
    return pl.any_horizontal(beyond) if beyond else pl.lit(False)


def _shorter(column: _Column, kwargs: Mapping[str, Any]) -> pl.Expr | None:
    if column.kind not in _TEXT:
        return None
    lengths = pl.col(column.name).cast(pl.String).str.len_chars()
    return lengths < float(kwargs["min_value"])


def _not_in_set(column: _Column, kwargs: Mapping[str, Any]) -> pl.Expr | None:
    declared = kwargs["value_set"]
    values = pl.col(column.name)
    if all(isinstance(each, str) for each in declared):
        return _not_named(column, kwargs) if column.kind in _TEXT else pl.lit(True)
    numbers = [float(each) for each in declared if not isinstance(each, str)]
    return ~values.cast(pl.Float64).is_in(numbers) if column.numeric else pl.lit(True)


def _not_named(column: _Column, kwargs: Mapping[str, Any]) -> pl.Expr | None:
    if column.kind.is_nested():
        return None
    values = pl.col(column.name)
    if column.kind == pl.Boolean and kwargs.get("as_numbers"):
        values = values.cast(pl.Int8)
    names: pl.Expr = values.cast(pl.String)
    return ~names.is_in(list(kwargs["value_set"]))


def _not_classes(column: _Column, kwargs: Mapping[str, Any]) -> pl.Expr | None:
    return _not_named(column, {**kwargs, "as_numbers": True})


#: Rows that break an expectation, by its indicator or type.
_UNEXPECTED: Mapping[str, Callable[[_Column, Mapping[str, Any]], pl.Expr | None]] = {
    "category": _not_named,
    "class": _not_classes,
    "expect_column_value_lengths_to_be_between": _shorter,
    "expect_column_values_to_be_between": _outside,
    "expect_column_values_to_be_in_set": _not_in_set,
}
