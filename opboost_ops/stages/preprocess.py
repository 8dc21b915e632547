"""Arrow: a feature holder's raw table -> integers of the declared domain."""

from collections import Counter
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa

from opboost_ops.config.columns import missing_name
from opboost_ops.config.feature import Fill
from opboost_ops.domain import Domain
from opboost_ops.errors import ContractError
from opboost_ops.exchange.encoding import narrow_integers, smallest_integers
from opboost_ops.stages import raw_table
from opboost_ops.stages.common_rows import CommonRows
from opboost_ops.stages.digest_ids import changed
from opboost_ops.stages.held import sources
from opboost_ops.stages.least_common import too_few
from opboost_ops.stages.released import Released, released
from opboost_ops.stages.stage import SHARDS, Context, Outcome


def preprocess(context: Context) -> Outcome:
    """Map the rows that are released onto the domain: the common ones, held-out ones last, or all.

    For one shard: those of them that lie in its file.

    Raises:
        ContractError: The table was rewritten, the alignment does not fit it, or a value is
            missing where no rule for missing values is declared.
    """
    if context.shard is not None:
        return _of_one_file(context, context.shard)
    if raw_table.fingerprint(context) != context.home.json("table")["sha256"]:
        raise changed(context)
    wanted = released(context)
    height = context.home.table("person_keys").num_rows
    few = too_few(context, wanted.count)
    if few is not None:
        return few
    rows = wanted.rows()
    table, clipped = _in_common_order(context, rows, height)
    return Outcome(
        tables={
            "preprocessed": table,
            "positions": pa.table({"position": smallest_integers(rows, context.home.scratch)}),
        },
        documents={"preprocessed": facts(wanted, clipped)},
        summary={"rows": table.num_rows, "features": table.num_columns},
    )


def _of_one_file(context: Context, shard: int) -> Outcome:
    shards = context.home.json(SHARDS)
    if raw_table.fingerprint(context, shard) != shards["sha256"][shard]:
        raise changed(context)
    begin, end = shards["offsets"][shard : shard + 2]
    positions = narrow_integers(context.home.table(context.part("positions")), "position")
    table, clipped = _in_common_order(context, positions.astype(np.int64) - begin, end - begin)
    return Outcome(
        tables={context.part("preprocessed"): table},
        documents={context.part("preprocessed"): {"clipped": clipped}},
        # How the common rows lie in the files is nobody's but the party's.
        summary={"features": table.num_columns},
    )


def _in_common_order(
    context: Context, positions: np.ndarray, height: int
) -> tuple[pa.Table, dict[str, int]]:
    """The rows at some positions of the table, or of the shard's file, in that order.

    As the table is read block by block, each row goes to its place at once: never is more of the
    raw table in memory than a block.
    """
    clipped: Counter[str] = Counter()

    def encoded(frame: pl.DataFrame) -> dict[str, np.ndarray]:
        table, outside = domain_integers(context, frame)
        clipped.update(outside)
        return {name: narrow_integers(table, name) for name in table.column_names}

    kinds = {column.source: _kind(column.source_domain) for column in sources(context)}
    features = list(context.federation.parties[context.party].features)
    whole = CommonRows(context, positions, height).columns(features, encoded, kinds)
    scratch = context.home.scratch
    columns = {name: smallest_integers(whole[name], scratch) for name in kinds}
    return pa.table(columns), dict(clipped)


def _kind(domain: Domain) -> np.dtype[Any]:
    """A small type that holds a domain."""
    return np.dtype(np.int64) if domain.lower < 0 else np.min_scalar_type(domain.upper)


def facts(wanted: Released, clipped: dict[str, int]) -> dict[str, Any]:
    """What later stages go by, a JSON value.

    Args:
        wanted: What is released.
        clipped: How many values of each feature were clipped.
    """
    sides = {"train": wanted.train, "holdout": wanted.others}
    # The key is older than releases that answer anything but an alignment.
    return {"alignment": wanted.answers, "clipped": clipped, **sides}


def domain_integers(
    context: Context, frame: pl.DataFrame, party: str = ""
) -> tuple[pa.Table, dict[str, int]]:
    """A feature holder's rows as integers of the declared domains.

    Args:
        context: The party's who has the rows.
        frame: Raw columns, each a feature.
        party: Whose features they are; that party's when absent.

    Returns:
        A column for each feature (a category's position for nominal ones) and for each missing
        bit; and how many values of each feature were clipped.

    Raises:
        ContractError: A value is missing where no rule for missing values is declared.
    """
    domain = context.federation.domain.to_domain()
    columns: dict[str, pa.Array] = {}
    clipped: dict[str, int] = {}
    party, there = party or context.party, set(frame.columns)
    for name, feature in context.federation.parties[party].features.items():
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
            mapping = feature.domain_map(domain)
            clipped[name] = mapping.clipped(values)
            columns[name] = smallest_integers(mapping.encode(values))
        if isinstance(feature.missing, Fill) and feature.missing.bit is not None:
            missing = raw_table.missing(column)
            columns[missing_name(name)] = smallest_integers(missing.astype(np.int64))
    return pa.table(columns), clipped
