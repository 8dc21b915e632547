"""Step: model and held-out rows -> metrics by scoring mode."""

from collections.abc import Mapping
from functools import cache
from typing import Any

import numpy as np
import pyarrow as pa

from opboost_ops.config.federation import ScoringMode
from opboost_ops.exchange.files import integers
from opboost_ops.learning.boosters.trainer import model_of, predict
from opboost_ops.pipeline.evaluation.baseline import baseline
from opboost_ops.pipeline.evaluation.held_out import judge
from opboost_ops.pipeline.evaluation.reference import comparable_reference
from opboost_ops.pipeline.inputs.model_columns import LABEL, frame_of
from opboost_ops.pipeline.inputs.other_columns import other_columns
from opboost_ops.pipeline.stage import Context, Outcome
from opboost_ops.pipeline.steps.check_model import checked_prediction
from opboost_ops.pipeline.steps.materialise import materialised_model


def evaluate(context: Context) -> Outcome:
    """Evaluate in every declared mode, beside a model of the label holder's columns alone.

    Mode ``desensitised`` is always included: its rows were sealed with the training rows. Metrics
    depend on the common people, and are redacted.
    """
    facts = context.home.json("frame")
    holdout = context.home.table("holdout_frame")
    truth = np.asarray(holdout.column(LABEL).to_numpy())
    model, scoring = materialised_model(context), context.federation.scoring
    version = context.reference
    text = comparable_reference(context, facts, version)
    used = {
        name for text_of in {model, text or model} for name in model_of(text_of).numeric_splits()
    }
    frame = cache(lambda mode: _frame(context, mode, facts, holdout, used))
    # `check_model` has already predicted the rows in mode `desensitised`.
    predictions: dict[ScoringMode, np.ndarray] = {
        mode: checked_prediction(context, len(truth))
        if mode == "desensitised"
        else predict(model, frame(mode))
        for mode in dict.fromkeys((*scoring.modes, "desensitised"))
    }
    reference = None
    if text is not None:
        # With unchanged tables the reference is the same model.
        same = text == model
        reference = predictions[scoring.mode] if same else predict(text, frame(scoring.mode))
    return judge(
        context,
        facts,
        truth,
        model,
        predictions,
        reference,
        version,
        lambda: baseline(context, facts, holdout),
    )


def _frame(
    context: Context, mode: ScoringMode, facts: Mapping[str, Any], holdout: pa.Table, used: set[str]
) -> np.ndarray:
    matrix = frame_of(holdout, facts).matrix
    if mode != "desensitised":
        positions = integers(context.home.table("alignment"), "position")[-holdout.num_rows :]
        for name, values in other_columns(context, mode, positions, used).items():
            matrix[:, facts["names"].index(name)] = values
    return matrix
