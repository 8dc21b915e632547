"""Converts a party's rows to people: sorts them, and aggregates several rows of a person to one.

What is reported about a table stays at the party: counts and row numbers, never an ID.

Rows without an ID are aggregated to one row without an ID, which the check of the table refuses;
their number is reported locally. Missing values, including NaN, are ignored; if a person has no
other value, the result is missing. ``n`` counts rows, whatever they contain. Sums are those of
64-bit floats, rounded once (`math.fsum`), so that the order of rows changes nobody's cell: a
changed cell is charged. A sum that overflows is infinite, which the check of the table refuses.
"""

import math
import os
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, Self

import polars as pl
import pyarrow.parquet as pq

from opboost_ops.config.federation import IdColumn
from opboost_ops.config.policy import Policy
from opboost_ops.config.site import Site
from opboost_ops.errors import ContractError
from opboost_ops.tables.columns import column_form, holds_numbers, type_name
from opboost_ops.tables.id_recipe import Changes, person_ids
from opboost_ops.tables.parquet import scan
from opboost_ops.tables.spill.tables import rows_of_block

#: Rows in memory at once, approximately, in addition to all IDs.
_ROWS = 1_000_000

#: Selects the IDs that may be in a copy; returns booleans.
IdFilter = Callable[[pl.Series], pl.Series]

#: Name of the local record of how a run derived IDs and people: counts and row numbers.
PEOPLE = "people"

#: Maximum number of row numbers that are kept.
_MAX_ROW_NUMBERS = 1000


class RowWriter:
    """A new Parquet file, written in blocks of rows and readable only by its owner.

    Args:
        target: The file.
    """

    def __init__(self, target: Path) -> None:
        self._target = target
        self._writer: pq.ParquetWriter | None = None

    def __enter__(self) -> Self:
        self._file = open(os.open(self._target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb")
        return self

    def write(self, rows: pl.DataFrame) -> None:
        """Append rows, whose columns must be those of the rows before."""
        table = rows.to_arrow(compat_level=pl.CompatLevel.oldest())
        self._writer = self._writer or pq.ParquetWriter(
            self._file, table.schema, compression="zstd"
        )
        self._writer.write_table(table)

    def __exit__(self, *_: object) -> None:
        with self._file:
            if self._writer is not None:
                self._writer.close()


def write_sorted(
    table: pl.LazyFrame, identity: str | None, target: Path, keep: IdFilter | None = None
) -> None:
    """Write a table sorted by ID, stably, with null IDs first.

    Args:
        table: Lazily scanned files, which are read once per million rows.
        identity: Name of the ID column; without one, the order is kept.
        target: The file, readable only by its owner.
        keep: Selects the IDs to copy; all by default.
    """
    if identity is None:
        table.sink_parquet(target, compression="zstd")
        target.chmod(0o600)
        return
    at = pl.col(identity)
    ids = table.select(at).collect(engine="streaming").to_series().drop_nulls().sort()
    cuts = ids.gather_every(_ROWS).unique(maintain_order=True).to_list()[1:]
    del ids
    ranges = [at.is_null() | (at < cuts[0] if cuts else True)]
    ranges += [(at >= low) & (at < high) for low, high in pairwise(cuts)]
    ranges += [at >= cuts[-1]] if cuts else []
    with RowWriter(target) as written:
        for rows in ranges:
            part = table.filter(rows).collect(engine="streaming")
            part = part.sort(identity, maintain_order=True)
            if keep is not None:
                part = part.filter(keep(part.get_column(identity)))
            written.write(part)


def write_people(
    table: Path, identity: str, aggregate: Mapping[str, str], party: str, target: Path
) -> int:
    """Write one row per person from a table that is sorted by ID.

    Args:
        table: A Parquet file.
        identity: Name of its ID column.
        aggregate: Aggregation of each column to write, as in ``site.yaml``.
        party: Name of the party, for messages.
        target: The file, readable only by its owner.

    Returns:
        The number of people.

    Raises:
        ContractError: A column is missing, or cannot be aggregated in the declared way.
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
        for block in _group_whole_people(blocks, identity):
            frame = block.group_by(identity, maintain_order=True).agg(
                expression.alias(name) for name, (expression, _, _) in steps.items()
            )
            frame = frame.with_columns(
                pl.Series(name, [_exact_sum(v, how) for v in frame.get_column(name)], pl.Float64)
                for name, (_, _, how) in steps.items()
                if how in ("sum", "mean")
            )
            people += frame.height - frame.get_column(identity).null_count()
            written.write(frame)
    return people


def _step(
    name: str, declared: str, at: int, columns: Mapping[str, tuple[str, pl.DataType]], party: str
) -> tuple[pl.Expr, str, str]:
    """Return the expression of an aggregated column, the raw column that it reads, and how.

    Errors name an entry by position, because raw names must not be logged.
    """
    parsed = re.fullmatch(r"(\w+)(?:\((.+)\))?", declared)
    assert parsed is not None
    how = parsed[1]
    if how == "n":
        return pl.len().cast(pl.Int64), "", how
    column = column_form(parsed[2] or name)
    if column not in columns:
        raise ContractError(
            f"Entry {at} of `aggregate` in site.yaml of {party} names a column that is not in the "
            "table.",
            "Correct tables there, or the query.",
        )
    raw, kind = columns[column]
    values = pl.col(raw).fill_nan(None) if kind.is_float() else pl.col(raw)
    numeric = holds_numbers(kind)
    if kind.is_nested() or (how in ("sum", "mean") and not numeric):
        raise ContractError(
            f"Entry {at} of `aggregate` in site.yaml of {party} requests the {how} of a column of "
            f"type {type_name(kind)}.",
            "Use another aggregate; texts and dates have min and max.",
        )
    if how in ("sum", "mean"):
        return values.cast(pl.Float64).drop_nulls(), raw, how
    values = values.cast(pl.String) if kind in (pl.Categorical, pl.Enum) else values
    return values.max() if how == "max" else values.min(), raw, how


def _exact_sum(values: pl.Series, how: str) -> float | None:
    if not len(values):
        return None
    try:
        total = math.fsum(values)
    except (OverflowError, ValueError):
        return math.inf
    return total if how == "sum" else total / len(values)


def _group_whole_people(blocks: Iterator[pl.DataFrame], identity: str) -> Iterator[pl.DataFrame]:
    """Redistribute rows so that each person's rows are in a single block."""
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


@dataclass(frozen=True)
class People:
    """How a party's rows become people.

    Attributes:
        identity: The federation's recipe for IDs.
        column: Raw name of the ID column, which is written if IDs are derived.
        parts: Raw names of the ID's columns, by declared name.
        aggregate: Aggregation of a person's rows, by raw name.
    """

    identity: IdColumn
    column: str
    parts: Mapping[str, str]
    aggregate: Mapping[str, str]


def people_of(site: Site, policy: Policy, federation: str, identity: IdColumn) -> People:
    """Return how a party's rows become people of a federation.

    Args:
        site: The party's site.
        policy: The party's policy.
        federation: Name of the federation.
        identity: The federation's recipe for IDs.
    """
    raw = {name: policy.raw_column(name, identity.column) for name in identity.parts}
    return People(
        identity,
        policy.raw_column(identity.column, identity.column),
        raw,
        site.tables[federation].aggregate,
    )


def write_ids(table: pl.LazyFrame, people: People, party: str, target: Path) -> dict[str, Any]:
    """Write a table with its derived IDs.

    Args:
        table: Raw columns.
        people: How its rows become people.
        party: Name of the party, for messages.
        target: The file, readable only by its owner.

    Returns:
        Number of rows; values that each rule changed, and rows without a value, by declared column;
        number of IDs with several spellings; number of rows that share an ID, and row numbers.

    Raises:
        ContractError: A column is missing, or has no single text form.
    """
    names = {column_form(name): name for name in table.collect_schema().names()}
    if missing := [part for part, raw in people.parts.items() if column_form(raw) not in names]:
        raise ContractError(
            f"The table of {party} has no column {', '.join(missing)}, a part of the ID.",
            "Add it to the table, or set its raw name in policy.yaml.",
        )
    raw = {part: names[column_form(column)] for part, column in people.parts.items()}
    changes, hashes = Changes(), list[pl.DataFrame]()
    with RowWriter(target) as written:
        for block in _blocks(table, rows_of_block(len(names))):
            parts = {part: block.get_column(column) for part, column in raw.items()}
            ids = person_ids(parts, people.identity, changes)
            spelt = block.select(raw.values()).hash_rows()
            hashes.append(
                pl.DataFrame({"id": ids.hash(), "spelt": spelt, "there": ids.is_not_null()})
            )
            column = names.get(column_form(people.column), people.column)
            written.write(block.with_columns(ids.alias(column)))
    every = pl.concat(hashes).with_row_index("row", offset=1).filter("there")
    by_id = every.group_by("id").agg(pl.len().alias("rows"), pl.col("spelt").n_unique())
    doubled = every.join(by_id.filter(pl.col("rows") > 1), on="id", how="semi")
    return {
        "rows": sum(block.height for block in hashes),
        "changed": {part: dict(rules) for part, rules in changes.values.items()},
        "missing": dict(changes.missing),
        "several_spellings": by_id.filter(pl.col("spelt") > 1).height,
        "repeated": doubled.height,
        "repeated_rows": doubled.get_column("row").sort().head(_MAX_ROW_NUMBERS).to_list(),
    }


def _blocks(table: pl.LazyFrame, rows: int) -> Iterator[pl.DataFrame]:
    """Yield a table in blocks; an empty table is one block with its columns."""
    blocks = table.collect_batches(chunk_size=rows, maintain_order=True, engine="streaming")
    first = next(blocks, None)
    yield table.collect() if first is None else first
    yield from blocks
