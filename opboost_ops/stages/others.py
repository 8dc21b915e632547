"""Other parties' columns of rows that were not trained on, in each mode of scoring."""

from collections.abc import Callable, Collection, Iterable, Sequence

import numpy as np
import polars as pl
import pyarrow as pa

from opboost_ops.boosting import routes
from opboost_ops.config.federation import ScoringMode
from opboost_ops.errors import ArtifactError
from opboost_ops.exchange.artifact import Artifact
from opboost_ops.exchange.encoding import integers
from opboost_ops.exchange.manifest import Kind
from opboost_ops.stages import raw_table
from opboost_ops.stages.chosen import chosen
from opboost_ops.stages.joined import Reader
from opboost_ops.stages.preprocess import domain_integers
from opboost_ops.stages.stage import Context

#: Who asks for columns of others in the own table, for the error.
_WHY = "scoring.mode local needs"

#: Gives a number of columns of so many rows more, by full name, float64, shape (n,).
Take = Callable[[int], dict[str, np.ndarray]]


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
        needed, names = set(used), held_names(context, used)
        raw = raw_table.read(context, names, _WHY)[positions] if names else pl.DataFrame()
        return held(context, raw, needed, len(positions))
    return taken(context, mode, len(positions))(len(positions))


def taken(context: Context, mode: ScoringMode, rows: int) -> Take:
    """The same of rows in the common order, some after the other; not for mode ``local``.

    Args:
        context: The label holder's.
        mode: Of scoring.
        rows: How many there are in all.

    Raises:
        ArtifactError: As `others`, also when they are taken.
    """
    parties = context.federation.feature_holders
    read = _routed if mode == "routed" else _released
    each = [read(context, party, rows) for party in parties]

    def take(count: int) -> dict[str, np.ndarray]:
        found: dict[str, np.ndarray] = {}
        for of_party in each:
            found |= of_party(count)
        return found

    return take


def _released(context: Context, party: str, rows: int) -> Take:
    reader = Reader(_values(context, party, rows))

    def take(count: int) -> dict[str, np.ndarray]:
        table = reader.take(count)
        return {
            f"{party}.{column.name}": integers(table, column.name).astype(float)
            for column in context.columns(party)
        }

    return take


def _values(context: Context, party: str, rows: int) -> Artifact | pa.Table:
    if context.federation.has_decoys:
        table = chosen(context, context.receive("values", party))
        return table.slice(context.home.json("alignment")["train"])
    kind: Kind = "holdout" if context.purpose == "train" else "values"
    return context.receive(kind, party, rows=rows)


def _routed(context: Context, party: str, rows: int) -> Take:
    asked = context.receive("route_request", party).document["thresholds"]
    answer = context.receive("routes", party, rows=rows)
    reader = Reader(answer) if asked else None

    def take(count: int) -> dict[str, np.ndarray]:
        found: dict[str, np.ndarray] = {}
        table = reader.take(count) if reader else pa.table({})
        for column in context.columns(party):
            full = f"{party}.{column.name}"
            if column.name not in asked:
                found[full] = np.full(count, float(column.domain.lower))
                continue
            thresholds = np.asarray(asked[column.name], dtype=np.float64)
            answered = integers(table, column.name)
            if answered.min() < 0 or answered.max() > len(thresholds):
                raise ArtifactError(
                    f"The routes of {full} name more thresholds than were asked for.",
                    "Nothing was scored; ask that party to look into its run.",
                )
            found[full] = routes.stand_ins(answered, thresholds)
        return found

    return take


def held_elsewhere(context: Context, party: str, features: Sequence[str]) -> pa.Table:
    """Another party's features as domain integers, from the label holder's own table.

    Args:
        context: The label holder's.
        party: Whose features they are; the columns are ``party.feature``.
        features: Which.

    Raises:
        ContractError: The table lacks a column, or holds it otherwise than declared.
    """
    raw = raw_table.read(context, [f"{party}.{name}" for name in features], _WHY)
    return _integers(context, raw, party, features)


def held_names(context: Context, used: Iterable[str]) -> list[str]:
    """Which columns of others mode ``local`` needs in the label holder's own table.

    Args:
        context: The label holder's.
        used: Full names of the columns on which the model splits.

    Raises:
        ContractError: It lacks one, or holds it otherwise than declared.
    """
    needed, found = set(used), list[str]()
    for party, features in _needed(context, needed).items():
        names = [f"{party}.{name}" for name in features]
        schema = raw_table.schema(context, raw_table.files(context), names, _WHY)
        _require_types(context, pl.DataFrame(schema=schema), party, features)
        found += names
    return found


def held(
    context: Context, raw: pl.DataFrame, used: Collection[str], rows: int
) -> dict[str, np.ndarray]:
    """What `others` gives in mode ``local``, of some rows.

    Args:
        context: The label holder's.
        raw: Columns of its own table, `held_names` among them, shape (rows, ...).
        used: Full names of the columns on which the model splits.
        rows: How many.

    Raises:
        ContractError: A value is not as declared.
    """
    found: dict[str, np.ndarray] = {}
    for party, features in _needed(context, used).items():
        table = _integers(context, raw, party, features) if features else pa.table({})
        for column in context.columns(party):
            full = f"{party}.{column.name}"
            if full not in used:
                found[full] = np.full(rows, float(column.domain.lower))
                continue
            values = integers(table, column.source)
            if column.bit is not None:
                values = values == column.bit
            found[full] = values.astype(float)
    return found


def _needed(context: Context, used: Collection[str]) -> dict[str, list[str]]:
    """By feature holder, the features that a model splits on."""
    return {
        party: list(
            dict.fromkeys(c.feature for c in context.columns(party) if f"{party}.{c.name}" in used)
        )
        for party in context.federation.feature_holders
    }


def _require_types(
    context: Context, raw: pl.DataFrame, party: str, features: Sequence[str]
) -> pl.DataFrame:
    """Columns ``party.feature`` as features, if they are of the declared types."""
    named = raw.select(pl.col(f"{party}.{name}").alias(name) for name in features)
    raw_table.require_types(named, party, context.federation.parties[party].features)
    return named


def _integers(context: Context, raw: pl.DataFrame, party: str, features: Sequence[str]) -> pa.Table:
    table, _ = domain_integers(context, _require_types(context, raw, party, features), party)
    return table
