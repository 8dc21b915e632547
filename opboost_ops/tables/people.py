"""How a party's rows become people: sorted, several rows of a person aggregated to one.

What is told of a table stays at home: counts, and numbers of rows, never an ID.

Where rows are aggregated, those without an ID become one without an ID, which the check of the
table refuses: how many there are is reported at home. Missing values, NaN among them, do not count;
where a person has no other value, the result is missing. ``n`` counts rows, whatever is in them.
Sums are those of 64-bit floats, rounded once (`math.fsum`), so that the order of rows moves no cell
of anybody's: a changed cell is charged. A sum that is no 64-bit float is infinite, which the check
of the table refuses.
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

#: About how many rows are in memory at once; besides all IDs.
_ROWS = 1_000_000

#: Which of some IDs may be in the copy, boolean.
Kept = Callable[[pl.Series], pl.Series]

#: Name of what a run keeps at home of how it made IDs and people: counts, and numbers of rows.
PEOPLE = "people"

#: Most numbers of rows that are kept.
_NUMBERED = 1000


class RowWriter:
    """A new Parquet file, written some rows at a time; its owner alone may read it.

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
        """Add rows.

        Args:
            rows: With the columns of those before them.
        """
        laid = rows.to_arrow(compat_level=pl.CompatLevel.oldest())
        self._writer = self._writer or pq.ParquetWriter(self._file, laid.schema, compression="zstd")
        self._writer.write_table(laid)

    def __exit__(self, *_: object) -> None:
        with self._file:
            if self._writer is not None:
                self._writer.close()


def write_sorted(
    table: pl.LazyFrame, identity: str | None, target: Path, keep: Kept | None = None
) -> None:
    """Write a table in the order of its IDs; rows of one ID stay in theirs, gaps come first.

    Args:
        table: From files, which are read once for each million rows.
        identity: Name of the ID column; without one, the order stays.
        target: The file; its owner alone may read it.
        keep: Whose rows are copied; all when absent.
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


@dataclass(frozen=True)
class People:
    """How a party's rows become people.

    Attributes:
        identity: How the federation makes its IDs.
        column: Raw name of the ID column, which is written where IDs are made.
        parts: Raw names of the columns that IDs are made of, by declared name.
        aggregate: How a person's rows become one, by raw name.
    """

    identity: IdColumn
    column: str
    parts: Mapping[str, str]
    aggregate: Mapping[str, str]


def people_of(site: Site, policy: Policy, federation: str, identity: IdColumn) -> People:
    """How a party's rows become people of a federation.

    Args:
        site: The party's.
        policy: The party's.
        federation: Its name.
        identity: How it makes its IDs.
    """
    raw = {name: policy.raw_column(name, identity.column) for name in identity.parts}
    return People(
        identity,
        policy.raw_column(identity.column, identity.column),
        raw,
        site.tables[federation].aggregate,
    )


def write_ids(table: pl.LazyFrame, people: People, party: str, target: Path) -> dict[str, Any]:
    """Write a table with its IDs.

    Args:
        table: Raw columns.
        people: How its rows become people.
        party: Whose it is, for messages.
        target: The file; its owner alone may read it.

    Returns:
        Rows; values that each rule changed, and rows without a value, by declared column; IDs that
        are written in several ways; rows with an ID of another row, and their numbers.

    Raises:
        ContractError: A column is not there, or holds what has no one text.
    """
    names = {column_form(name): name for name in table.collect_schema().names()}
    if absent := [part for part, raw in people.parts.items() if column_form(raw) not in names]:
        raise ContractError(
            f"The table of {party} lacks {', '.join(absent)}, which the ID is made of.",
            "Add it to the table, or let policy.yaml say what it is called there.",
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
        "repeated_rows": doubled.get_column("row").sort().head(_NUMBERED).to_list(),
    }


def _blocks(table: pl.LazyFrame, rows: int) -> Iterator[pl.DataFrame]:
    """A table in blocks; one without rows is one block, which has its columns."""
    blocks = table.collect_batches(chunk_size=rows, maintain_order=True, engine="streaming")
    first = next(blocks, None)
    yield table.collect() if first is None else first
    yield from blocks
