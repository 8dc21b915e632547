"""Measures of a table, one an expectation: what is counted, block by block."""

# ruff: noqa: D102
# `Measure` documents what its subclasses override.

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from opboost_ops.quality.repeats import Repeats

#: Values at the start of a block that usually decide how many different ones there are.
_HEAD = 1024


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

    @property
    def margin(self) -> float:
        """How far it is from the nearer limit; negative outside, and where nothing was measured."""
        margin = min(self.value - self.least, self.most - self.value)
        return margin if margin == margin else -math.inf


class Column:
    """Counts of a column: NaN is a missing value, as in pandas.

    Attributes:
        rows: Of all blocks, as the two that follow.
        nulls: Rows without a value.
        nans: Rows with NaN.
        extremes: The block's least and greatest number; None where it has none.
        least: Of all blocks.
        greatest: Of all blocks.
    """

    def __init__(self, name: str, kind: pl.DataType) -> None:
        self.name, self.kind = name, kind
        self.rows = self.nulls = self.nans = 0
        self.extremes: tuple[Any, Any] = (None, None)
        self.least: Any = None
        self.greatest: Any = None

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

    @property
    def missing(self) -> int:
        """Rows without a value, or with NaN."""
        return self.nulls + self.nans

    def expressions(self) -> Sequence[pl.Expr]:
        """What to compute of a block, a value each."""
        values = pl.col(self.name)
        nans = values.is_nan().sum() if self.kind.is_float() else pl.lit(0)
        extremes = (values.min(), values.max()) if self.numeric else (pl.lit(None), pl.lit(None))
        return pl.len(), values.null_count(), nans, *extremes

    def add(self, values: Sequence[Any]) -> None:
        """Take what was computed of a block."""
        rows, nulls, nans, least, greatest = values
        self.rows += rows
        self.nulls += nulls
        self.nans += nans
        self.extremes = least, greatest
        if least is not None:
            self.least = least if self.least is None else min(self.least, least)
            self.greatest = greatest if self.greatest is None else max(self.greatest, greatest)


class Measure:
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


@dataclass
class Height(Measure):
    """The number of rows."""

    expected: int
    rows: int = 0

    def expressions(self) -> Sequence[pl.Expr]:
        return (pl.len(),)

    def add(self, values: Sequence[Any]) -> None:
        self.rows += values[0]

    def measurement(self) -> Measurement:
        return Measurement(self.rows, self.expected, self.expected)


@dataclass
class Fact(Measure):
    """Something that is so or not, whatever the rows."""

    holds: bool

    def measurement(self) -> Measurement:
        return Measurement(float(self.holds), 1)


class Share(Measure):
    """The share of the rows that keep an expectation.

    Args:
        column: Its column.
        unexpected: Which rows break it; several where it takes the whole column to say which.
        mostly: The least share.
        passed_over: The missing values that are not judged: ``nulls``, ``nans``.
    """

    def __init__(
        self,
        column: Column,
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


class FloatClasses(Share):
    """Classes of a column of floats, which are named as integers if all of them are whole."""

    def __init__(self, column: Column, classes: Sequence[str]) -> None:
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
        return self._share(named if broken else whole, self._column.missing)


class Between(Share):
    """Numbers within limits; they are compared one by one in blocks that have one outside."""

    def __init__(self, column: Column, kwargs: Mapping[str, Any]) -> None:
        self._least, self._most = kwargs["min_value"], kwargs["max_value"]
        super().__init__(column, pl.lit(False), kwargs.get("mostly", 1))

    def look(self, frame: pl.DataFrame) -> None:
        least, greatest = self._column.extremes
        if least is None or (least >= self._least and greatest <= self._most):
            return
        values, limits = pl.col(self._column.name), (self._least, self._most)
        if self._column.kind.is_integer():
            # Integers are compared as such, with limits that their type can hold.
            kind = np.iinfo(str(self._column.kind).lower())
            limits = math.ceil(max(self._least, kind.min)), math.floor(min(self._most, kind.max))
        else:
            values = values.cast(pl.Float64)
        outside = self._column.present & ~values.is_between(*limits)
        self._count += frame.select(outside.sum()).item()


class Extreme(Measure):
    """The least value, or the greatest."""

    def __init__(self, column: Column, kwargs: Mapping[str, Any], greatest: bool) -> None:
        self._column, self._name = column, "greatest" if greatest else "least"
        self._limits = kwargs["min_value"], kwargs["max_value"]

    def measurement(self) -> Measurement:
        value = getattr(self._column, self._name)
        return Measurement(math.nan if value is None else float(value), *self._limits)


class Distinct(Measure):
    """How many values differ; no more of them are kept than decide it."""

    def __init__(self, column: Column, kwargs: Mapping[str, Any]) -> None:
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


class Unique(Share):
    """Values that another row has, too."""

    def __init__(self, column: Column, repeats: Repeats) -> None:
        super().__init__(column, pl.lit(False))
        self._repeats = repeats

    def look(self, frame: pl.DataFrame) -> None:
        self._repeats.add(frame.get_column(self._column.name))

    def measurement(self) -> Measurement:
        return self._share(self._repeats.count(), self._column.missing)


class RankGap(Measure):
    """Ranks between 1 and the highest that no row has, and rows without a rank."""

    def __init__(self, column: Column) -> None:
        self._column = column
        self._ranks: set[Any] = set()
        #: Every rank up to this one is there.
        self._dense = 0

    def look(self, frame: pl.DataFrame) -> None:
        cells = frame.get_column(self._column.name)
        for part in (cells.head(_HEAD), cells):
            if not self._known():
                self._ranks.update(part.unique().to_list())
                while self._dense + 1 in self._ranks:
                    self._dense += 1

    def _known(self) -> bool:
        """Whether the block can have no rank that is new."""
        least, greatest = self._column.extremes
        if least is None:
            return True
        return self._column.kind.is_integer() and least > 0 and greatest <= self._dense

    def measurement(self) -> Measurement:
        ranks = {rank for rank in self._ranks if rank is not None and rank == rank}
        gaps = sum(rank != 1 and rank - 1 not in ranks for rank in ranks)
        return Measurement(gaps + self._column.missing, 0, 0)
