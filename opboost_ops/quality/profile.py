"""A profile of a table: what each expectation of a suite measures, in one streaming pass."""

from collections.abc import Callable, Mapping, Sequence
from itertools import islice
from typing import Any

import polars as pl

from opboost_ops.quality.measures import (
    Between,
    Column,
    Distinct,
    Extreme,
    Fact,
    FloatClasses,
    Height,
    Measure,
    Measurement,
    RankGap,
    Share,
    Unique,
)
from opboost_ops.quality.repeats import Repeats
from opboost_ops.tables.spill.arrays import Scratch
from opboost_ops.tables.spill.blocks import Blocks

Expectation = Mapping[str, Any]

_TEXT = (pl.String, pl.Categorical, pl.Enum)


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
    schema = block.schema
    columns: dict[str, Column] = {}
    measures: list[Measure] = []
    for expectation in expectations:
        name = expectation["kwargs"].get("column")
        column = None
        if name in schema:
            column = columns.setdefault(name, Column(name, schema[name]))
        measures.append(_measure(expectation, column, read, spill))
    while True:
        _add(block, columns, measures)
        del block  # Before the next one is read.
        if (following := next(stream, None)) is None:
            return [measure.measurement() for measure in measures]
        block = following
        del following


def _add(block: pl.DataFrame, columns: Mapping[str, Column], measures: Sequence[Measure]) -> None:
    frame = block.select(list(columns) or block.columns[:1])
    counting: list[Column | Measure] = [*columns.values(), *measures]
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


def _measure(
    expectation: Expectation, column: Column | None, read: Blocks, spill: Scratch | None
) -> Measure:
    """How an expectation is measured.

    Raises:
        KeyError: No built-in suite has such an expectation.
    """
    kind, kwargs = expectation["type"], expectation["kwargs"]
    if kind == "expect_table_row_count_to_equal":
        return Height(kwargs["value"])
    if kind == "expect_column_to_exist":
        return Fact(column is not None)
    if column is None:
        return Measure()
    if kind == "expect_column_values_to_be_in_type_list":
        return Fact(str(column.kind).lower() in kwargs["type_list"])
    if kind == "expect_column_values_to_be_unique":
        return Unique(column, Repeats(column.name, read, spill))
    if kind == "expect_column_unique_value_count_to_be_between":
        return Distinct(column, kwargs)
    if kind in ("expect_column_min_to_be_between", "expect_column_max_to_be_between"):
        greatest = kind == "expect_column_max_to_be_between"
        return Extreme(column, kwargs, greatest) if column.kind.is_integer() else Measure()
    if kind == "expect_column_values_to_not_be_null":
        return Share(column, ~column.present, kwargs.get("mostly", 1), ())
    indicator = expectation.get("indicator")
    if indicator == "rank_gap":
        return RankGap(column) if column.numeric else Measure()
    if indicator == "not_a_number":
        nans = pl.col(column.name).is_nan() if column.kind.is_float() else pl.lit(False)
        return Share(column, nans, 1, ("nulls",)) if column.numeric else Measure()
    if indicator == "class" and column.kind.is_float():
        return FloatClasses(column, kwargs["value_set"])
    if kind == "expect_column_values_to_be_between":
        return Between(column, kwargs) if column.numeric else Measure()
    unexpected = _UNEXPECTED[indicator or kind](column, kwargs)
    if unexpected is None:
        return Measure()
    return Share(column, column.present & unexpected, kwargs.get("mostly", 1))


def _shorter(column: Column, kwargs: Mapping[str, Any]) -> pl.Expr | None:
    if column.kind not in _TEXT:
        return None
    lengths = pl.col(column.name).cast(pl.String).str.len_chars()
    return lengths < float(kwargs["min_value"])


def _not_in_set(column: Column, kwargs: Mapping[str, Any]) -> pl.Expr | None:
    declared = kwargs["value_set"]
    values = pl.col(column.name)
    if all(isinstance(each, str) for each in declared):
        return _not_named(column, kwargs) if column.kind in _TEXT else pl.lit(True)
    numbers = [float(each) for each in declared if not isinstance(each, str)]
    return ~values.cast(pl.Float64).is_in(numbers) if column.numeric else pl.lit(True)


def _not_named(column: Column, kwargs: Mapping[str, Any]) -> pl.Expr | None:
    if column.kind.is_nested():
        return None
    values = pl.col(column.name)
    if column.kind == pl.Boolean and kwargs.get("as_numbers"):
        values = values.cast(pl.Int8)
    if column.kind.is_integer():
        # Texts take long to compare.
        texts = pl.Series(kwargs["value_set"], dtype=pl.String)
        numbers = texts.cast(column.kind, strict=False)
        known = numbers.filter(numbers.cast(pl.String) == texts)
        return ~values.is_in(known.implode())
    names: pl.Expr = values.cast(pl.String)
    return ~names.is_in(list(kwargs["value_set"]))


#: Rows that break an expectation, by its indicator or type.
_UNEXPECTED: Mapping[str, Callable[[Column, Mapping[str, Any]], pl.Expr | None]] = {
    "category": _not_named,
    "class": lambda column, kwargs: _not_named(column, {**kwargs, "as_numbers": True}),
    "expect_column_value_lengths_to_be_between": _shorter,
    "expect_column_values_to_be_in_set": _not_in_set,
}
