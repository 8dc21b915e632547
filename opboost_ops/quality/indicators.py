"""Small derived columns, for what Great Expectations has no expectation of its own."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa

# No column of a party's table has this character in its name.
_BETWEEN = "\x1f"

_BY_RANGE = "expect_column_values_to_be_between"


@dataclass(frozen=True)
class Indicator:
    """How a derived column is computed, and what is expected of it.

    Attributes:
        words: The expectation in plain words.
        compute: Column to derived column of the same length, shape (n,).
    """

    words: str
    compute: Callable[[pl.Series], pl.Series]


def _not_a_number(values: pl.Series) -> pl.Series:
    # pandas cannot tell NaN from an absent value, so that it would be passed over there.
    floats = values.dtype.is_float()
    return values.is_nan().cast(pl.Int8) if floats else values * 0


def _rank_gap(values: pl.Series) -> pl.Series:
    present = values.drop_nulls().unique().to_numpy()
    ranks = values.cast(pl.Float64).to_numpy()
    gap = (ranks != 1) & ~np.isin(ranks - 1, present)
    return pl.Series(gap.astype(np.int8))


def _category(values: pl.Series) -> pl.Series:
    if values.dtype.is_float():
        values = values.fill_nan(None)
    return values.cast(pl.String)


def _class(values: pl.Series) -> pl.Series:
    if values.dtype.is_float():
        values = values.fill_nan(None)
        whole = (values == values.floor()).all()
        values = values.cast(pl.Int64, strict=False) if whole else values
    elif values.dtype == pl.Boolean:
        values = values.cast(pl.Int8)
    return values.cast(pl.String)


INDICATORS: Mapping[str, Indicator] = {
    "not_a_number": Indicator("every value is a number", _not_a_number),
    "rank_gap": Indicator("every rank from 1 to the highest is there", _rank_gap),
    "category": Indicator("every value is one of the declared categories", _category),
    "class": Indicator("every value is one of the declared classes", _class),
}


def derived(
    table: pa.Table, expectations: Sequence[Mapping[str, Any]]
) -> tuple[pa.Table, list[Mapping[str, Any]]]:
    """Add the derived columns that expectations ask for, and point them there.

    Args:
        table: The table.
        expectations: Those with an ``indicator`` are about a derived column.

    Returns:
        The table with the derived columns, and plain configurations of ``type`` and ``kwargs``.
    """
    plain: list[Mapping[str, Any]] = []
    for expectation in expectations:
        kwargs = dict(expectation["kwargs"])
        name = expectation.get("indicator")
        if name is not None:
            column = kwargs["column"]
            kwargs["column"] = f"{column}{_BETWEEN}{name}"
            if column in table.column_names:
                values = INDICATORS[name].compute(pl.Series("", table.column(column)))
                table = table.append_column(kwargs["column"], values.to_arrow())
        elif expectation["type"] == _BY_RANGE and _is_narrow(table, kwargs["column"]):
            # Great Expectations compares narrow numbers one by one in Python.
            column, kwargs["column"] = kwargs["column"], f"{kwargs['column']}{_BETWEEN}"
            if kwargs["column"] not in table.column_names:
                wide = table.column(column).cast(pa.int64())
                table = table.append_column(kwargs["column"], wide)
        plain.append({"type": expectation["type"], "kwargs": kwargs})
    return table, plain


def _is_narrow(table: pa.Table, column: str) -> bool:
    if column not in table.column_names:
        return False
    kind = table.schema.field(column).type
    return bool(pa.types.is_integer(kind) and kind not in (pa.int64(), pa.uint64()))


def origin(column: str) -> tuple[str, str]:
    """The column that a derived one was computed from, and its indicator; empty if none was."""
    name, _, indicator = column.partition(_BETWEEN)
    return name, indicator
