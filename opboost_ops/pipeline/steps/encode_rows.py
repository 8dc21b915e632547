"""Step: a party's raw table -> integers of the declared domain, and raw held-out rows."""

from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa

from opboost_ops.config.columns import shared_columns
from opboost_ops.errors import ContractError
from opboost_ops.exchange.files import narrow_integers, smallest_integers
from opboost_ops.pipeline.inputs import raw_table
from opboost_ops.pipeline.inputs.holdout import held_out_in
from opboost_ops.pipeline.inputs.model_columns import LABEL, encode_label
from opboost_ops.pipeline.inputs.raw_blocks import blocks
from opboost_ops.pipeline.stage import Context, Outcome

#: Tables of training rows as integers of their domains, and of raw held-out rows.
_ROWS, _HELD_OUT = "rows", "holdout_frame"

#: Document with facts about the columns of both tables.
_FRAME = "frame"


def encode_rows(context: Context) -> Outcome:
    """Encode this party's own rows for horizontal learning, block by block; nothing is sent.

    Raises:
        ContractError: The table was rewritten, a value is missing where none may be, or there are
            no training rows or no held-out rows.
    """
    raw_table.require_unchanged(context)
    label = context.federation.label
    assert label is not None
    columns = shared_columns(context.federation)
    classes: list[str | int] = []
    rows, holdout = [], []
    for block in blocks(context):
        held_out = held_out_in(context.federation, block)
        truth, classes = encode_label(block.get_column(label.column), label, None)
        mine = block.filter(pl.Series(~held_out))
        integers = {
            column.name: smallest_integers(column.integers(_numbers(context, mine, column.feature)))
            for column in columns
        }
        rows.append(pa.table({**integers, LABEL: truth[~held_out]}))
        others = raw_matrix(context, block.filter(pl.Series(held_out)))
        holdout.append(pa.table({**others, LABEL: truth[held_out]}))
    facts = {
        "names": [column.name for column in columns],
        "ranked": [],
        "categories": {},
        "task": label.task,
        "classes": classes,
    }
    return _encoded(context, rows, holdout, facts)


def _encoded(
    context: Context, rows: list[pa.Table], holdout: list[pa.Table], facts: dict[str, Any]
) -> Outcome:
    # Each block has the smallest types that hold it.
    training = pa.table(
        {
            name: smallest_integers(
                np.concatenate([narrow_integers(part, name).astype(np.int64) for part in rows])
            )
            for name in facts["names"]
        }
        | {LABEL: np.concatenate([part.column(LABEL).to_numpy() for part in rows])}
    )
    held_out = pa.concat_tables(holdout).combine_chunks()
    # An empty side is no fault of a single file, and its row counts are private.
    if not (training.num_rows and held_out.num_rows):
        raise ContractError(
            f"{context.party} has no row to train on, or none to hold out.",
            "Take part with more rows, or declare another holdout.",
        )
    # In private training the sums disclose the number of rows with noise.
    exact = context.federation.training.private is None
    return Outcome(
        tables={_ROWS: training, _HELD_OUT: held_out},
        documents={_FRAME: facts},
        summary={
            "features": len(facts["names"]),
            **({"rows": training.num_rows} if exact else {}),
        },
    )


def raw_matrix(context: Context, frame: pl.DataFrame) -> dict[str, np.ndarray]:
    """Return rows as inputs of the horizontal model, float64 columns by name.

    Args:
        context: The party's context.
        frame: Raw columns by feature.

    Raises:
        ContractError: A value is missing where none may be.
    """
    return {
        column.name: column.raw(_numbers(context, frame, column.feature))
        for column in shared_columns(context.federation)
    }


def _numbers(context: Context, frame: pl.DataFrame, name: str) -> np.ndarray:
    feature = context.federation.shared_features[name]
    values = raw_table.numbers(frame.get_column(name), feature)
    if np.isinf(values).any():
        raise ContractError(f"{context.party}.{name} has infinite values.", "Correct the table.")
    if feature.missing != "keep" and np.isnan(values).any():
        option = "" if feature.type == "nominal" else ", or `missing: keep`,"
        raise ContractError(
            f"{context.party}.{name} has missing values.",
            f"Declare `missing: {{fill: ...}}`{option} for it, or correct the table.",
        )
    return values
