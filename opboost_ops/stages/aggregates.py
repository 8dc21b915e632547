"""Several rows of a person become one, by the aggregates that the party's ``site.yaml`` declares.

Values that are missing, NaN among them, do not count; where a person has no other one, the result
is missing. ``n`` counts rows, whatever is in them. Sums are those of 64-bit floats, rounded once
(`math.fsum`), so that the order of rows moves no cell of anybody's: a changed cell is charged. A
sum that is no 64-bit float is infinite, which the check of the table refuses.
"""

import math
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

import polars as pl

from opboost_ops.errors import ContractError
from opboost_ops.scratch.blocks import rows_of_block
from opboost_ops.stages.column_types import type_name
from opboost_ops.stages.sorted_copy import RowWriter


def write_people(
    table: Path, identity: str, aggregate: Mapping[str, str], party: str, target: Path
) -> int:
    """Write one row a person of a table that is sorted by ID.

    Args:
        table: A Parquet file.
        identity: Its ID column.
        aggregate: By column to write, as ``site.yaml`` declares it.
        party: Whose it is, for messages.
        target: The file; its owner alone may read it.

    Returns:
        How many people there are.

    Raises:
        ContractError: A row has no ID, a column is not there, or cannot be aggregated so.
    """
    scan = pl.scan_parquet(table)
    schema = dict(scan.collect_schema())
    steps = {
        name: _step(name, declared, {n.strip(): (n, kind) for n, kind in schema.items()}, party)
        for name, declared in aggregate.items()
        if name != identity.strip()
    }
    gaps = int(scan.select(pl.col(identity).null_count()).collect(engine="streaming").item())
    if gaps:
        raise ContractError(
            f"{gaps:,} rows of the table of {party} have no ID, and are nobody's to aggregate.",
            "Leave those rows out.",
        )
    used = pl.col(list(dict.fromkeys([identity, *(n for _, n, _ in steps.values() if n)])))
    blocks = scan.select(used).collect_batches(
        chunk_size=rows_of_block(len(schema)), maintain_order=True, engine="streaming"
    )
    people = 0
    with RowWriter(target) as written:
        for block in _whole_people(blocks, identity):
            found = block.group_by(identity, maintain_order=True).agg(
                expression.alias(name) for name, (expression, _, _) in steps.items()
            )
            found = found.with_columns(
                pl.Series(name, [_exactly(v, how) for v in found.get_column(name)], pl.Float64)
                for name, (_, _, how) in steps.items()
                if how in ("sum", "mean")
            )
            people += found.height
            written.write(found)
    return people


def _step(
    name: str, declared: str, columns: Mapping[str, tuple[str, pl.DataType]], party: str
) -> tuple[pl.Expr, str, str]:
    """What makes a column, the raw column that it reads, and how."""
    parsed = re.fullmatch(r"(\w+)(?:\((.+)\))?", declared)
    assert parsed is not None
    how = parsed[1]
    if how == "n":
        return pl.len().cast(pl.Int64), "", how
    column = (parsed[2] or name).strip()
    if column not in columns:
        raise ContractError(
            f"The table of {party} has no column for an aggregate of its site.yaml: {how} of "
            f"{column}.",
            "Correct tables there: aggregate, or the query.",
        )
    raw, kind = columns[column]
    values = pl.col(raw).fill_nan(None) if kind.is_float() else pl.col(raw)
    numeric = kind.is_numeric() or kind in (pl.Boolean, pl.Null)
    if kind.is_nested() or (how in ("sum", "mean") and not numeric):
        raise ContractError(
            f"The table of {party} has a column of type {type_name(kind)}, of which its site.yaml "
            f"wants the {how}: {column}.",
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
    held: pl.DataFrame | None = None
    for block in blocks:
        joined = block if held is None else pl.concat([held, block])
        if not joined.height:
            continue
        last = joined.get_column(identity) == joined.get_column(identity)[-1]
        held = joined.filter(last)
        yield joined.filter(~last)
    if held is not None:
        yield held
