"""How a party's rows become people: the recipe of their IDs, and what it did to a table.

What is told of a table stays at home: counts, and numbers of rows, never an ID.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl

from opboost_ops.config.federation import IdColumn
from opboost_ops.config.policy import Policy
from opboost_ops.config.site import Site
from opboost_ops.errors import ContractError
from opboost_ops.tables.id_recipe import Changes, person_ids
from opboost_ops.tables.names import column_form
from opboost_ops.tables.sorted_copy import RowWriter
from opboost_ops.tables.spill.blocks import rows_of_block

#: Name of what a run keeps at home of how it made IDs and people: counts, and numbers of rows.
PEOPLE = "people"

#: Most numbers of rows that are kept.
_NUMBERED = 1000


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
