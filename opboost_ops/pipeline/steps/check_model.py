"""Data-quality check of a materialised model, by what it says of the held-out rows."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa

from opboost_ops.learning.boosters.trainer import model_of, predict
from opboost_ops.pipeline.stage import Context, Outcome
from opboost_ops.pipeline.steps.assemble import frame_of
from opboost_ops.pipeline.steps.checks import check, domains_of
from opboost_ops.pipeline.steps.materialise import materialised_model
from opboost_ops.quality import suites
from opboost_ops.tables.spill.arrays import slices
from opboost_ops.tables.spill.tables import rows_of_block

#: In the home: what the model predicts of the held-out rows, which `evaluate` reads.
_PREDICTION = "checked_prediction"


def check_model(context: Context) -> Outcome:
    """Check the materialised model: its predictions and its thresholds."""
    facts = context.home.json("frame")
    text = materialised_model(context)
    prediction = _predicted(context, text, facts)
    splits = model_of(text).numeric_splits()
    beyond = context.federation.keeps_all
    # Where in its own domain each threshold lies, as a share: domains differ from column to column.
    thresholds = [
        (threshold - domain.lower) / (domain.upper - domain.lower)
        for name, domain in domains_of(context).items()
        for threshold in splits.get(name, [])
        # Half a step beyond the domain: it parts missing values from all others.
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
    """Predictions of the held-out rows by the checked model, as `trainer.predict` gives them.

    Args:
        context: Of the party that holds the rows.
        rows: How many they are.
    """
    prediction = np.array(context.home.table(_PREDICTION).column("prediction").to_numpy())
    return prediction if len(prediction) == rows else prediction.reshape(rows, -1)


def _predicted(context: Context, text: str, facts: Mapping[str, Any]) -> np.ndarray:
    """A model's predictions of held-out rows, class after class, in memory or on disk."""
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
    """Some of a column's values, and gaps where it has no more."""
    here = pl.Series(values[rows])
    return here.extend_constant(None, rows.stop - rows.start - len(here))
