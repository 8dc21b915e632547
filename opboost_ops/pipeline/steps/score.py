"""Step: new rows, preprocessed as in training -> scores."""

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa

from opboost_ops.exchange.files import narrow_integers
from opboost_ops.pipeline.evaluation.held_out import COVERAGE, coverage, group_names
from opboost_ops.pipeline.evaluation.scores import RowScorer, warn_untrained
from opboost_ops.pipeline.inputs import raw_table
from opboost_ops.pipeline.inputs.common_rows import CommonRows
from opboost_ops.pipeline.inputs.model_columns import own_columns
from opboost_ops.pipeline.inputs.other_columns import local_columns, local_names, opened_values
from opboost_ops.pipeline.inputs.raw_blocks import blocks
from opboost_ops.pipeline.inputs.raw_table import declared_columns
from opboost_ops.pipeline.stage import Context, Outcome
from opboost_ops.pipeline.steps.encode_rows import raw_matrix
from opboost_ops.tables.spill.arrays import slices
from opboost_ops.tables.spill.tables import reorder, rows_of_block

#: Column of IDs; the blank prevents a clash with a feature's name.
_ID = " id"

#: Batches of rows: IDs, the model's columns (float64, by full name), and coverage.
_Some = Iterator[tuple[pa.ChunkedArray | pa.Array, dict[str, np.ndarray], pa.Array | None]]


def score(context: Context) -> Outcome:
    """Score every row of the label holder's table of new rows that the mode can score.

    In mode ``local`` and with ``overlap: left`` these are all rows, otherwise those common to all
    parties. At most one block, or one part of the common order, is in memory.

    Raises:
        ContractError: The model is damaged, or the table is not the one that was checked.
        ArtifactError: Another party's release is malformed.
    """
    scorer = RowScorer.of(context.registry.files(context.scored_version), context.federation)
    raw_table.require_unchanged(context)
    scoring, rows = context.federation.scoring, context.home.json("table")["rows"]
    warn_untrained(scorer.facts, scorer.fitted, scoring)
    if scoring.mode == "local":
        some = _of_own_table(context, scorer)
    else:
        positions = narrow_integers(context.home.table("alignment"), "position")
        rows = len(positions)
        some = _in_common_order(context, scorer.facts, positions)

    def tables() -> Iterator[pa.Table]:
        for ids, columns, covered in some:
            more = {} if covered is None else {COVERAGE: covered}
            scores = scorer.score(columns, len(ids), scoring.reasons or 0, **more)
            yield pa.table({context.federation.id.column: ids, **scores})
            del ids, columns, covered, scores  # Free memory before the next ones are made.

    return Outcome(
        tables={"scores": tables()},
        summary={"rows": rows, "mode": scoring.mode, "version": context.model},
    )


def _of_own_table(context: Context, scorer: RowScorer) -> _Some:
    """Yield all rows, in the order of the table."""
    used = scorer.used()
    horizontal = context.federation.learning == "horizontal"
    elsewhere = [] if horizontal else local_names(context, used)
    for block in blocks(context, list(dict.fromkeys([*declared_columns(context), *elsewhere]))):
        if not block.height:
            continue
        if horizontal:
            columns = raw_matrix(context, block)
        else:
            columns = own_columns(context.federation, block, scorer.facts["categories"])
            columns |= local_columns(context.federation, block, used, block.height)
        yield _ids(context, block), columns, None
        del block, columns  # Free memory before the next one is read.


def _in_common_order(context: Context, facts: Mapping[str, Any], positions: np.ndarray) -> _Some:
    """Yield the scored rows, in the common order."""
    left, done = context.federation.keeps_all, 0
    take = opened_values(context, context.federation.scoring.mode)
    rows = CommonRows(context, positions)
    pieces = (
        (places, _own(context, frame, facts["categories"]))
        for places, frame in rows.blocks(declared_columns(context))
    )
    for part in reorder(context.home.scratch, pieces, len(positions)):
        blocks_of = list(slices(part.num_rows, rows_of_block(len(facts["names"]))))
        # Without rows, yield one empty batch, so that a file is written.
        for each in blocks_of or [slice(0, 0)]:
            some = part.slice(each.start, each.stop - each.start)
            ids, own = some.column(_ID), some.drop_columns([_ID])
            columns = {name: own.column(name).to_numpy() for name in own.column_names}
            covered = group_names(coverage(context, done, some.num_rows)) if left else None
            yield ids, columns | take(some.num_rows), covered
            done += some.num_rows


def _own(context: Context, frame: pl.DataFrame, categories: Mapping[str, Any]) -> pa.Table:
    """Return IDs and own features of rows."""
    columns = own_columns(context.federation, frame, categories)
    return pa.table({_ID: _ids(context, frame), **columns})


def _ids(context: Context, frame: pl.DataFrame) -> pa.Array:
    """Return the IDs; categorical ones as text, because their codes differ between blocks."""
    ids = frame.get_column(context.federation.id.column)
    return (ids.cast(pl.String) if ids.dtype == pl.Categorical else ids).to_arrow()
