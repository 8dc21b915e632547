"""Several rows of a person become one, by the aggregates that the party's ``site.yaml`` declares.

Rows without an ID become one without an ID, which the check of the table refuses: how many there
are is reported at home. Missing values, NaN among them, do not count; where a person has no other
value, the result is missing. ``n`` counts rows, whatever is in them. Sums are those of 64-bit
floats, rounded once (`math.fsum`), so that the order of rows moves no cell of anybody's: a changed
cell is charged. A sum that is no 64-bit float is infinite, which the check of the table refuses.
"""

import math
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

import polars as pl

from opboost_ops.errors import ContractError
from opboost_ops.tables.column_types import holds_numbers, type_name
from opboost_ops.tables.names import column_form
from opboost_ops.tables.parquet import scan
from opboost_ops.tables.sorted_copy import RowWriter
from opboost_ops.tables.spill.blocks import rows_of_block


def write_people(
    table: Path, identity: str, aggregate: Mapping[str, str], party: str, target: Path
) -> int:
    """Write one row per person of a table that is sorted by ID.

    Args:
        table: A Parquet file.
        identity: Its ID column.
        aggregate: By column to write, as ``site.yaml`` declares it.
        party: Whose it is, for messages.
        target: The file; its owner alone may read it.

    Returns:
        How many people there are.

    Raises:
        ContractError: A column is not there, or cannot be aggregated so.
    """
    rows = scan(table)
    schema = dict(rows.collect_schema())
    columns = {column_form(name): (name, kind) for name, kind in schema.items()}
    steps = {
        name: _step(name, declared, at, columns, party)
        for at, (name, declared) in enumerate(aggregate.items(), start=1)
        if name != column_form(identity)
    }
    used = pl.col(list(dict.fromkeys([identity, *(n for _, n, _ in steps.values() if n)])))
    blocks = rows.select(used).collect_batches(
        chunk_size=rows_of_block(len(schema)), maintain_order=True, engine="streaming"
    )
    people = 0
    with RowWriter(target) as written:
        for block in _whole_people(blocks, identity):
            frame = block.group_by(identity, maintain_order=True).agg(
                expression.alias(name) for name, (expression, _, _) in steps.items()
            )
            frame = frame.with_columns(
                pl.Series(name, [_exactly(v, how) for v in frame.get_column(name)], pl.Float64)
                for name, (_, _, how) in steps.items()
                if how in ("sum", "mean")
            )
            people += frame.height - frame.get_column(identity).null_count()
            written.write(frame)
    return people


def _step(
    name: str, declared: str, at: int, columns: Mapping[str, tuple[str, pl.DataType]], party: str
) -> tuple[pl.Expr, str, str]:
    """The expression that makes a column, the raw column that it reads, and how.

    Errors give an entry's place: raw names get into no log that others may read.
    """
    parsed = re.fullmatch(r"(\w+)(?:\((.+)\))?", declared)
    assert parsed is not None
    how = parsed[1]
    if how == "n":
        return pl.len().cast(pl.Int64), "", how
    column = column_form(parsed[2] or name)
    if column not in columns:
        raise ContractError(
            f"Entry {at} of `aggregate` in site.yaml of {party} names a column that the table "
            "lacks.",
            "Correct tables there, or the query.",
        )
    raw, kind = columns[column]
    values = pl.col(raw).fill_nan(None) if kind.is_float() else pl.col(raw)
    numeric = holds_numbers(kind)
    if kind.is_nested() or (how in ("sum", "mean") and not numeric):
        raise ContractError(
            f"Entry {at} of `aggregate` in site.yaml of {party} asks for the {how} of a column of "
            f"type {type_name(kind)}.",
            "Name another aggregate; texts and dates have min and max.",
        )
    if how in ("sum", "mean"):
        return values.cast(pl.Float64).drop_nulls(), raw, how
    values = values.cast(pl.String) if kind in (pl.Categorical, pl.Enum) else values
    return values.max() if how == "max" else values.min(), raw, how


def _exactly(values: pl.Series, how: str) -> float | None:
    if not len(values):
        return None
    try:
        total = math.fsum(values)
    except (OverflowError, ValueError):
        return math.inf
    return total if how == "sum" else total / len(values)


def _whole_people(blocks: Iterator[pl.DataFrame], identity: str) -> Iterator[pl.DataFrame]:
    """The same rows, so that nobody's are in two blocks."""
    pending: pl.DataFrame | None = None
    for block in blocks:
        joined = block if pending is None else pl.concat([pending, block])
        if not joined.height:
            continue
        ids = joined.get_column(identity)
        last = ids.eq_missing(ids[-1:])
        pending = joined.filter(last)
        yield joined.filter(~last)
    if pending is not None:
        yield pending
