"""Other parties' columns of rows outside the training set, for each scoring mode."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

import numpy as np
import polars as pl
import pyarrow as pa

from opboost_ops.config.columns import Column, columns_of
from opboost_ops.config.federation import Federation, ScoringMode
from opboost_ops.learning import splits
from opboost_ops.learning.registry.importance import released_columns
from opboost_ops.pipeline.inputs import raw_table
from opboost_ops.pipeline.inputs.model_columns import model_columns
from opboost_ops.pipeline.inputs.raw_blocks import whole_table
from opboost_ops.pipeline.inputs.raw_table import domain_integers
from opboost_ops.pipeline.stage import Context, PartyContext
from opboost_ops.pipeline.steps.open_rows import (
    members_table,
    open_tables,
    opened_table,
    routed_rows,
)
from opboost_ops.tables.spill.parts import gather

#: What needs other parties' columns in the label holder's table, for the error message.
_WHY = "scoring.mode local needs"

#: Returns the next rows, as many as requested: columns by full name, float64, shape (n,).
Take = Callable[[int], dict[str, np.ndarray]]


def other_columns(
    context: Context, mode: ScoringMode, positions: np.ndarray, used: Iterable[str]
) -> dict[str, np.ndarray]:
    """Return model inputs from other parties' columns, as precise as the scoring mode allows.

    Args:
        context: The label holder's context.
        mode: Scoring mode, ``local`` or ``routed``.
        positions: Row numbers of the label holder's own table, shape (n,).
        used: Full names of the columns on which the model splits.

    Returns:
        Columns by full name, float64, shape (n,). In mode ``routed`` they are stand-ins on the
        same side of every threshold; a column that the model does not use is constant.

    Raises:
        Rejected: An answer is malformed.
        ContractError: In mode ``local``, the label holder's table lacks a column, has one that
            differs from its declaration, or was rewritten since the rows were selected.
    """
    if mode == "local":
        raw_table.require_unchanged(context)
        needed, names = set(used), local_names(context, used)
        raw = whole_table(context, names, _WHY)[positions] if names else pl.DataFrame()
        return local_columns(context.federation, raw, needed, len(positions))
    return _routed_again(context, positions)


def opened_values(context: Context, mode: ScoringMode) -> Take:
    """Return a function that reads the opened values of new rows in the common order.

    Args:
        context: The label holder's context.
        mode: Scoring mode other than ``local``.
    """
    holders, home = context.federation.feature_holders, context.home
    tables = {holder: home.table(opened_table(holder)) for holder in holders}
    left = context.federation.keeps_all
    members = {h: home.table(members_table(h)).column("there") for h in holders if left}
    done = 0

    def take(count: int) -> dict[str, np.ndarray]:
        nonlocal done
        begin, done = done, done + count
        columns_of_rows: dict[str, np.ndarray] = {}
        for party, table in tables.items():
            some = table.slice(begin, count)
            there = np.ones(count, dtype=bool)
            if left:
                there = members[party].slice(begin, count).to_numpy()
            columns = {n: some.column(n).fill_null(0).to_numpy() for n in some.column_names}
            if mode == "routed":
                columns_of_rows |= _stand_ins(context, party, columns, there)
            else:
                columns_of_rows |= {
                    f"{party}.{name}": np.where(there, values, np.nan)
                    for name, values in columns.items()
                }
        return columns_of_rows

    return take


def _routed_again(context: Context, positions: np.ndarray) -> dict[str, np.ndarray]:
    """Return stand-ins of held-out rows in a training run, sealed together with their ranks."""
    holders = context.federation.feature_holders
    forms = {holder: routed_rows(context, holder) for holder in holders}
    stand_ins: dict[str, np.ndarray] = {}
    for holder, (present, packed) in open_tables(context, forms).items():
        there = gather(context.home.scratch, present, positions)
        columns = forms[holder].unpack(gather(context.home.scratch, packed, positions))
        stand_ins |= _stand_ins(context, holder, columns, there)
    return stand_ins


def _stand_ins(
    context: Context, party: str, cells: Mapping[str, np.ndarray], there: np.ndarray
) -> dict[str, np.ndarray]:
    thresholds = context.receive("route_request", party).document["thresholds"]
    return of_cells(party, columns_of(context.federation, party), thresholds, cells, there)


def of_cells(
    party: str,
    columns: Iterable[Column],
    thresholds_of: Mapping[str, Sequence[float]],
    cells: Mapping[str, np.ndarray],
    there: np.ndarray,
) -> dict[str, np.ndarray]:
    """Return stand-ins for intervals between thresholds, by full name, float64, shape (n,).

    Args:
        party: A feature holder.
        columns: Its columns.
        thresholds_of: Thresholds by name of each requested column.
        cells: The party's answers by column, shape (n,).
        there: People in the party's table, bool, shape (n,); all others get NaN.
    """
    cells_by_name: dict[str, np.ndarray] = {}
    for column in columns:
        full = f"{party}.{column.name}"
        if column.name not in thresholds_of:
            cells_by_name[full] = np.where(there, float(column.domain.lower), np.nan)
            continue
        thresholds = np.asarray(thresholds_of[column.name], dtype=np.float64)
        inside = splits.representatives(np.where(there, cells[column.name], 0), thresholds)
        cells_by_name[full] = np.where(there, inside, np.nan)
    return cells_by_name


def local_table(context: PartyContext, party: str, features: Sequence[str]) -> pa.Table:
    """Return another party's features as domain integers, from the label holder's own table.

    Args:
        context: The label holder's context.
        party: The features' party; the table's columns are ``party.feature``.
        features: Names of the features.

    Raises:
        ContractError: The table lacks a column, or has one that differs from its declaration.
    """
    raw = whole_table(context, [f"{party}.{name}" for name in features], _WHY)
    frame = _require_types(context.federation, raw, party, features)
    return domain_integers(context.federation, party, frame)


def local_names(context: PartyContext, used: Iterable[str]) -> list[str]:
    """Return the other parties' columns that mode ``local`` needs in the label holder's table.

    Args:
        context: The label holder's context.
        used: Full names of the columns on which the model splits.

    Raises:
        ContractError: The table lacks a column, or has one that differs from its declaration.
    """
    needed, own_names = set(used), list[str]()
    for party, features in needed_elsewhere(context.federation, needed).items():
        names = [f"{party}.{name}" for name in features]
        schema = raw_table.schema(context, raw_table.files(context), names, _WHY)
        _require_types(context.federation, pl.DataFrame(schema=schema), party, features)
        own_names += names
    return own_names


def local_columns(
    federation: Federation, raw: pl.DataFrame, used: Collection[str], rows: int
) -> dict[str, np.ndarray]:
    """Return the columns of `other_columns` in mode ``local`` for given raw rows.

    Args:
        federation: The federation as declared.
        raw: Columns of the label holder's table, including `local_names`, shape (rows, ...).
        used: Full names of the columns on which the model splits.
        rows: Number of rows.

    Raises:
        ContractError: A value differs from its declaration.
    """
    for party, features in needed_elsewhere(federation, used).items():
        _require_types(federation, raw, party, features)
    columns = list(released_columns(federation))
    needed = [column for column in columns if column.name in used]
    sources = {c.source: raw.get_column(c.source).alias(c.feature) for c in needed}
    values = model_columns(needed, sources)
    # Columns without a split do not affect the score.
    return {c.name: values[c.name] if c.name in values else np.zeros(rows) for c in columns}


def needed_elsewhere(federation: Federation, used: Collection[str]) -> dict[str, list[str]]:
    """Return the features that a model splits on, by feature holder.

    Args:
        federation: The federation as declared.
        used: Full names of the columns on which the model splits.
    """
    return {
        party: list(
            dict.fromkeys(
                c.feature for c in columns_of(federation, party) if f"{party}.{c.name}" in used
            )
        )
        for party in federation.feature_holders
    }


def _require_types(
    federation: Federation, raw: pl.DataFrame, party: str, features: Sequence[str]
) -> pl.DataFrame:
    """Return the columns ``party.feature`` under their feature names; check their types."""
    named = raw.select(pl.col(f"{party}.{name}").alias(name) for name in features)
    raw_table.require_types(named, party, federation.parties[party].features)
    return named
