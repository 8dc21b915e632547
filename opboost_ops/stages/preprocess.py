"""Arrow: a feature holder's raw table -> integers of the declared domain."""

from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa

from opboost_ops.config.columns import missing_name
from opboost_ops.config.feature import Fill
from opboost_ops.config.federation import Federation
from opboost_ops.domain import Domain
from opboost_ops.errors import ContractError
from opboost_ops.exchange.encoding import narrow_integers, smallest_integers
from opboost_ops.scratch.arrays import release_memory
from opboost_ops.stages import raw_table
from opboost_ops.stages.capped_values import sources
from opboost_ops.stages.raw_blocks import unchanged_blocks
from opboost_ops.stages.stage import Context, Outcome


def preprocess(context: Context) -> Outcome:
    """Map the whole table onto the domain, in its order.

    Raises:
        ContractError: The table was rewritten, or a value is missing where no rule for missing
            values is declared.
    """
    raw_table.require_unchanged(context)
    table = _encoded(context)
    return Outcome(
        tables={"preprocessed": table},
        # How the rows lie in the files is nobody's but the party's.
        summary={"rows": table.num_rows, "features": table.num_columns},
    )


def _encoded(context: Context) -> pa.Table:
    """The rows of the table; no more than a block is in memory raw."""
    scratch, rows = context.home.scratch, context.home.json("table")["rows"]
    kinds = {column.source: _kind(column.source_domain) for column in sources(context)}
    whole = {name: scratch.zeros(rows, kind) for name, kind in kinds.items()}
    features = list(context.declared.features)
    for begin, block in unchanged_blocks(context, features):
        table = domain_integers(context.federation, context.party, block)
        for name, column in whole.items():
            column[begin : begin + table.num_rows] = narrow_integers(table, name)
        del block, table  # Before the next one is read.
        release_memory()
    return pa.table({name: smallest_integers(whole[name], scratch) for name in kinds})


def _kind(domain: Domain) -> np.dtype[Any]:
    """A small type that holds a domain."""
    return np.dtype(np.int64) if domain.lower < 0 else np.min_scalar_type(domain.upper)


def domain_integers(federation: Federation, party: str, frame: pl.DataFrame) -> pa.Table:
    """A feature holder's rows as integers of the declared domains.

    Args:
        federation: As declared.
        party: Whose features they are.
        frame: Raw columns, each a feature.

    Returns:
        A column for each feature (a category's position for nominal ones) and for each missing
        bit. Values outside the bounds are clipped.

    Raises:
        ContractError: A value is missing where no rule for missing values is declared.
    """
    domain = federation.domain.to_domain()
    columns: dict[str, pa.Array] = {}
    there = set(frame.columns)
    for name, feature in federation.parties[party].features.items():
        if name not in there:
            continue
        column = frame.get_column(name)
        values = raw_table.numbers(column, feature)
        if not np.isfinite(values).all():
            raise ContractError(
                f"{party}.{name} has missing or infinite values.",
                "Declare `missing: {fill: ...}` for it, or correct the table.",
            )
        if feature.type == "nominal":
            columns[name] = smallest_integers(values.astype(np.int64))
        else:
            columns[name] = smallest_integers(feature.domain_map(domain).encode(values))
        if isinstance(feature.missing, Fill) and feature.missing.bit is not None:
            missing = raw_table.missing(column)
            columns[missing_name(name)] = smallest_integers(missing.astype(np.int64))
    return pa.table(columns)
