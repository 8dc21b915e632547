"""Small derived columns, for what Great Expectations has no expectation of its own."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa

# No column of a party's table has this character in its name.
_BETWEEN = "\x1f"

_BY_RANGE = "expect_column_values_to_be_between"


#: What an indicator must know of its whole column, by column and indicator.
Facts = Mapping[tuple[str, str], Any]


@dataclass(frozen=True)
class Indicator:
    """How a derived column is computed, and what is expected of it.

    Attributes:
        words: The expectation in plain words.
        compute: Column, or some rows of it, and the facts about all of it, to derived column of
            the same length, shape (n,).
        gather: Makes these facts of the column's parts.
    """

    words: str
    compute: Callable[[pl.Series, Any], pl.Series]
    gather: Callable[[Iterable[pl.Series]], Any] = lambda _: None


def _not_a_number(values: pl.Series, _: None) -> pl.Series:
    # pandas cannot tell NaN from an absent value, so that it would be passed over there.
    floats = values.dtype.is_float()
    return values.is_nan().cast(pl.Int8) if floats else values * 0


def _ranks_present(parts: Iterable[pl.Series]) -> np.ndarray:
    return np.unique(np.concatenate([part.drop_nulls().unique().to_numpy() for part in parts]))


def _rank_gap(values: pl.Series, present: np.ndarray) -> pl.Series:
    ranks = values.cast(pl.Float64).to_numpy()
    gap = (ranks != 1) & ~np.isin(ranks - 1, present)
    return pl.Series(gap.astype(np.int8))


def _category(values: pl.Series, _: None) -> pl.Series:
    if values.dtype.is_float():
        values = values.fill_nan(None)
    return values.cast(pl.String)


def _all_whole(parts: Iterable[pl.Series]) -> bool:
    clean = (part.fill_nan(None) for part in parts if part.dtype.is_float())
    return all((part == part.floor()).all() for part in clean)


def _class(values: pl.Series, whole: bool) -> pl.Series:
    if values.dtype.is_float():
        values = values.fill_nan(None)
        values = values.cast(pl.Int64, strict=False) if whole else values
    elif values.dtype == pl.Boolean:
        values = values.cast(pl.Int8)
    return values.cast(pl.String)


INDICATORS: Mapping[str, Indicator] = {
    "not_a_number": Indicator("every value is a number", _not_a_number),
    "rank_gap": Indicator("every rank from 1 to the highest is there", _rank_gap, _ranks_present),
    "category": Indicator("every value is one of the declared categories", _category),
    "class": Indicator("every value is one of the declared classes", _class, _all_whole),
}


def needs_facts(name: str, kind: pa.DataType) -> bool:
    """Whether an indicator must know anything of a whole column of some type."""
    return name == "rank_gap" or (name == "class" and bool(pa.types.is_floating(kind)))


def derived(
    table: pa.Table, expectations: Sequence[Mapping[str, Any]], facts: Facts | None = None
) -> tuple[pa.Table, list[Mapping[str, Any]]]:
    """Add the derived columns that expectations ask for, and point them there.

    Args:
        table: The table, or some rows of it.
        expectations: Those with an ``indicator`` are about a derived column.
        facts: What is known of the whole columns; gathered from this table when absent.

    Returns:
        The table with the derived columns, and plain configurations of ``type`` and ``kwargs``.
    """
    plain: list[Mapping[str, Any]] = []
    known = facts or {}
    for expectation in expectations:
        kwargs = dict(expectation["kwargs"])
        column = kwargs.get("column")
        target = _target(expectation, table.schema)
        if target != column:
            kwargs["column"] = target
            if column in table.column_names and target not in table.column_names:
                name = expectation.get("indicator")
                if name is None:
                    values = table.column(column).cast(pa.int64())
                else:
                    series, indicator = pl.Series("", table.column(column)), INDICATORS[name]
                    told = known.get((str(column), name))
                    told = indicator.gather([series]) if told is None else told
                    values = indicator.compute(series, told).to_arrow()
                table = table.append_column(target, values)
        plain.append({"type": expectation["type"], "kwargs": kwargs})
    return table, plain


def in_order(expectations: Sequence[Mapping[str, Any]], schema: pa.Schema) -> list[int]:
    """The order in which Great Expectations reports: column by column, as they first appear.

    Args:
        expectations: As asked of a table.
        schema: The table's.

    Returns:
        Places among the expectations.
    """
    columns: dict[Any, list[int]] = {}
    for at, expectation in enumerate(expectations):
        columns.setdefault(_target(expectation, schema), []).append(at)
    return [at for places in columns.values() for at in places]


def _target(expectation: Mapping[str, Any], schema: pa.Schema) -> Any:
    """Which column an expectation is about in the end; None if about no single one."""
    column = expectation["kwargs"].get("column")
    if (name := expectation.get("indicator")) is not None:
        return f"{column}{_BETWEEN}{name}"
    if expectation["type"] == _BY_RANGE and _is_narrow(schema, column):
        # Great Expectations compares narrow numbers one by one in Python.
        return f"{column}{_BETWEEN}"
    return column


def _is_narrow(schema: pa.Schema, column: str) -> bool:
    if schema.get_field_index(column) < 0:
        return False
    kind = schema.field(column).type
    return bool(pa.types.is_integer(kind) and kind not in (pa.int64(), pa.uint64()))


def origin(column: str) -> tuple[str, str]:
    """The column that a derived one was computed from, and its indicator; empty if none was."""
    name, _, indicator = column.partition(_BETWEEN)
    return name, indicator
