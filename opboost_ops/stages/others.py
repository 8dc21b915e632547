"""Other parties' columns of rows that were not trained on, in each mode of scoring."""

from collections.abc import Iterable, Sequence

import numpy as np
import pyarrow as pa

from opboost_ops.boosting import routes
from opboost_ops.config.federation import ScoringMode
from opboost_ops.errors import ArtifactError
from opboost_ops.exchange.encoding import integers
from opboost_ops.exchange.manifest import Kind
from opboost_ops.stages import raw_table
from opboost_ops.stages.chosen import chosen
from opboost_ops.stages.preprocess import domain_integers
from opboost_ops.stages.stage import Context


def others(
    context: Context, mode: ScoringMode, positions: np.ndarray, used: Iterable[str]
) -> dict[str, np.ndarray]:
    """Values on which a model of domain values gives what the mode can know.

    Args:
        context: The label holder's.
        mode: Of scoring.
        positions: Which rows of the label holder's own table, shape (n,).
        used: Full names of the columns on which the model splits.

    Returns:
        By full name, float64, shape (n,). In mode ``routed`` stand-ins on the same side of every
        threshold; a column that is not needed, and so not known, is constant.

    Raises:
        ArtifactError: An answer is not what it must be.
        ContractError: In mode ``local``, the label holder's table lacks a column, or holds it
            otherwise than declared.
    """
    if mode == "local":
        return _held(context, positions, set(used))
    found: dict[str, np.ndarray] = {}
    for party in context.federation.feature_holders:
        if mode == "routed":
            found |= _routed(context, party, len(positions))
            continue
        table = _released(context, party, len(positions))
        for column in context.columns(party):
            found[f"{party}.{column.name}"] = integers(table, column.name).astype(float)
    return found


def _released(context: Context, party: str, rows: int) -> pa.Table:
    if context.federation.has_decoys:
        table = chosen(context, context.receive("values", party))
        return table.slice(context.home.json("alignment")["train"])
    kind: Kind = "holdout" if context.purpose == "train" else "values"
    return context.receive(kind, party, rows=rows).table


def _routed(context: Context, party: str, rows: int) -> dict[str, np.ndarray]:
    asked = context.receive("route_request", party).document["thresholds"]
    answer = context.receive("routes", party, rows=rows)
    found: dict[str, np.ndarray] = {}
    for column in context.columns(party):
        full = f"{party}.{column.name}"
        if column.name not in asked:
            found[full] = np.full(rows, float(column.domain.lower))
            continue
        thresholds = np.asarray(asked[column.name], dtype=np.float64)
        answered = integers(answer.table, column.name)
        if len(answered) != rows or answered.min() < 0 or answered.max() > len(thresholds):
            raise ArtifactError(
                f"The routes of {full} name more thresholds than were asked for, or other rows.",
                "Nothing was scored; ask that party to look into its run.",
            )
        found[full] = routes.stand_ins(answered, thresholds)
    return found


def held_elsewhere(
    context: Context, party: str, features: Sequence[str], positions: np.ndarray | None = None
) -> pa.Table:
    """Another party's features as domain integers, from the label holder's own table.

    Args:
        context: The label holder's.
        party: Whose features they are; the columns are ``party.feature``.
        features: Which.
        positions: Which rows, shape (n,); all when absent.

    Raises:
        ContractError: The table lacks a column, or holds it otherwise than declared.
    """
    names = [f"{party}.{name}" for name in features]
    raw = raw_table.read(context, names, "scoring.mode local needs")
    raw = raw.rename({f"{party}.{name}": name for name in features})
    raw_table.require_types(raw, party, context.federation.parties[party].features)
    table, _ = domain_integers(context, raw if positions is None else raw[positions], party)
    return table


def _held(context: Context, positions: np.ndarray, used: set[str]) -> dict[str, np.ndarray]:
    """From the label holder's own table, whose columns ``party.feature`` are raw values."""
    rows = len(positions)
    found: dict[str, np.ndarray] = {}
    for party in context.federation.feature_holders:
        columns = context.columns(party)
        needed = dict.fromkeys(c.feature for c in columns if f"{party}.{c.name}" in used)
        table = pa.table({})
        if needed:
            table = held_elsewhere(context, party, list(needed), positions)
        for column in columns:
            full = f"{party}.{column.name}"
            if full not in used:
                found[full] = np.full(rows, float(column.domain.lower))
                continue
            values = integers(table, column.source)
            if column.bit is not None:
                values = values == column.bit
            found[full] = values.astype(float)
    return found
