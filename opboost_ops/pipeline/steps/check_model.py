"""Step: materialised model -> data-quality check of its predictions and thresholds."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa

from opboost_ops.learning.boosters.trainer import model_of, predict
from opboost_ops.pipeline.inputs.model_columns import frame_of
from opboost_ops.pipeline.stage import Context, Outcome
from opboost_ops.pipeline.steps.checks import check, domains_of
from opboost_ops.pipeline.steps.materialise import materialised_model
from opboost_ops.quality import suites
from opboost_ops.tables.spill.arrays import slices
from opboost_ops.tables.spill.tables import rows_of_block

#: Document in the home with the model's predictions of the held-out rows, for `evaluate`.
_PREDICTION = "checked_prediction"


def check_model(context: Context) -> Outcome:
    """Check the materialised model's held-out predictions and its thresholds."""
    facts = context.home.json("frame")
    text = materialised_model(context)
    prediction = _predicted(context, text, facts)
    splits = model_of(text).numeric_splits()
    beyond = context.federation.keeps_all
    # Positions of thresholds as shares of their domain, because domains differ between columns.
    thresholds = [
        (threshold - domain.lower) / (domain.upper - domain.lower)
        for name, domain in domains_of(context).items()
        for threshold in splits.get(name, [])
        # Half a step outside the domain, such a threshold separates missing from other values.
        if not (beyond and threshold in (domain.lower - 0.5, domain.upper + 0.5))
    ]
    suite = suites.model(facts["task"])
    both = {"prediction": prediction, "threshold": np.array(thresholds, dtype=np.float64)}

    def read(columns: Sequence[str]) -> Iterator[pl.DataFrame]:
        for rows in slices(max(map(len, both.values())), rows_of_block(len(both))):
            yield pl.DataFrame({name: _cells(both[name], rows) for name in columns or both})

    outcome = check(context, {"model": (suite, read)}, marks="checked_model")
    return replace(outcome, tables={_PREDICTION: pa.table({"prediction": prediction})})


def checked_prediction(context: Context, rows: int) -> np.ndarray:
    """Return the checked model's predictions of the held-out rows, shaped as by `trainer.predict`.

    Args:
        context: Context of the party that has the rows.
        rows: Number of held-out rows.
    """
    prediction = np.array(context.home.table(_PREDICTION).column("prediction").to_numpy())
    return prediction if len(prediction) == rows else prediction.reshape(rows, -1)


def _predicted(context: Context, text: str, facts: Mapping[str, Any]) -> np.ndarray:
    """Return a model's flattened predictions of held-out rows, in memory or on disk."""
    table, scratch = context.home.table("holdout_frame"), context.home.scratch
    predictions = np.zeros(0)
    for rows in slices(table.num_rows, rows_of_block(len(facts["names"]))):
        frame = frame_of(table.slice(rows.start, rows.stop - rows.start), facts)
        block = np.ravel(predict(text, frame.matrix))
        several = len(block) // len(frame.matrix)
        if not len(predictions):
            predictions = scratch.zeros(table.num_rows * several, np.float64)
        predictions[rows.start * several : rows.stop * several] = block
        del frame
    return predictions


def _cells(values: np.ndarray, rows: slice) -> pl.Series:
    """Return a slice of a column's values, padded with nulls beyond its end."""
    here = pl.Series(values[rows])
    return here.extend_constant(None, rows.stop - rows.start - len(here))
