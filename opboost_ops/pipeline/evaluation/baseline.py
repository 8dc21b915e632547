"""The baseline that a common model has to beat: the best model on the label holder's columns alone.

Parameters that suit the common model may not suit fewer columns: a baseline forced to use the same
300 trees gets worse and makes the common model look better. So the baseline has its own parameters,
selected by trials on training rows: those of `training.tuning`, otherwise at most four candidates
compared on a third of the rows. One candidate, LightGBM only, has larger trees and early stopping,
which suits many columns better than any small number of small trees.

The baseline uses no other party's data, so it stays at home, and is trained again only if the label
holder's rows, columns, labels, parameters or software have changed.
"""

import io
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa

from opboost_ops.config.training import LightGBMTraining
from opboost_ops.learning import metrics, tuning
from opboost_ops.learning.boosters import trainer
from opboost_ops.learning.boosters.backend import Frame, Parameters, Stop, folds
from opboost_ops.learning.boosters.lightgbm_backend import SAMPLE_ROWS
from opboost_ops.learning.boosters.trainer import parameters_of
from opboost_ops.learning.metrics import trial_score
from opboost_ops.pipeline.evaluation.tuning_search import search, with_trial
from opboost_ops.pipeline.home import baseline_cache, fingerprint, software
from opboost_ops.pipeline.inputs.model_columns import LABEL, frame_of
from opboost_ops.pipeline.stage import Context

#: Maximum training rows of the trials without `training.tuning`, and the number of parts: one
#: validates, the others train.
_ROWS, _PARTS = 50_000, 3

#: Maximum training rows for the selected parameters: more hardly improve a model of few columns.
_MOST_ROWS = 500_000

#: Maximum boosting rounds, depth, and early-stopping rounds of the candidate that stops early.
_TREES, _DEPTH, _PATIENCE = 300, 8, 20


@dataclass(frozen=True)
class Baseline:
    """Predictions from the label holder's columns alone.

    Attributes:
        prediction: Predictions of the held-out rows.
        chosen: Selected parameters and the number of trials, for the model card; empty if the
            label holder has no columns.
    """

    prediction: np.ndarray
    chosen: Mapping[str, Any]


def baseline(context: Context, facts: Mapping[str, Any], holdout: pa.Table) -> Baseline:
    """Train on the label holder's columns alone with the best parameters, and predict.

    Args:
        context: The label holder's context.
        facts: Facts about the training frame from `assemble`.
        holdout: The held-out rows.
    """
    table = context.home.table("frame")
    # Rows are ordered by keyed digests, so every n-th row is a random sample.
    table = table.take(np.arange(0, table.num_rows, max(1, -(-table.num_rows // _MOST_ROWS))))
    label = np.array(table.column(LABEL).to_numpy())
    own = frame_of(table, facts, f"{context.party}.")
    del table
    task, classes = facts["task"], facts["classes"]
    if not own.names:
        rows = holdout.num_rows
        return Baseline(metrics.constant_prediction(task, len(classes), label, rows), {})
    training = context.federation.training
    declared = parameters_of(training, task, classes)
    held_out = frame_of(holdout, facts, f"{context.party}.").matrix
    how = (
        declared,
        training.tuning,
        classes,
        _ROWS,
        _PARTS,
        _MOST_ROWS,
        SAMPLE_ROWS,
        software(declared.trainer),
    )
    made_of = fingerprint(repr(how), own, label, held_out)
    cache = baseline_cache(context.lasting)
    if (cached := cache.read(made_of)) is not None:
        parameters, content = cached
        return Baseline(np.load(io.BytesIO(content), allow_pickle=False), parameters)
    if training.tuning is not None:
        look = training.tuning
        result = search(context.home, own, label, declared, look, context.tell, "evaluate")
        best, metric = with_trial(declared, result), result["metric"]
        tried, parts = result["trials"], result["folds"]
    else:
        metric, parts = tuning.trial_metric(declared), 1
        best, tried = _best(own, label, declared, metric)
    if best.trainer == "lightgbm":
        # The label holder's own columns are no ranks, so bins may come from a sample of rows.
        best = replace(best, own={**best.own, "bin_construct_sample_cnt": SAMPLE_ROWS})
    model = trainer.train(own, label, best, progress=context.tell)
    trees = best.trees
    if best.stop is not None:
        trees = model.count("\nTree=") // (len(classes) if task == "multiclass" else 1)
    parameters = {"trees": trees, "learning_rate": best.learning_rate, "depth": best.depth}
    parameters |= {"trials": tried, "metric": metric, "folds": parts}
    parameters["stopped"] = best.stop is not None
    prediction = trainer.predict(model, held_out)
    file = io.BytesIO()
    np.save(file, prediction, allow_pickle=False)
    cache.write(made_of, parameters, file.getvalue())
    return Baseline(prediction, parameters)


def _best(
    own: Frame, label: np.ndarray, declared: Parameters, metric: str
) -> tuple[Parameters, int]:
    """Return the best of the candidates and their number."""
    few = np.arange(0, len(label), -(-len(label) // _ROWS))
    rows, truth = own.rows(few), label[few]
    judges = folds(truth, _PARTS, declared.seed, "alone") == 0
    learns, matrix = rows.rows(~judges), rows.rows(judges).matrix
    candidates = list(_candidates(declared))
    scores = [
        trial_score(
            metric,
            each,
            truth[judges],
            trainer.predict(trainer.train(learns, truth[~judges], each), matrix),
        )
        for each in candidates
    ]
    return candidates[int(np.argmax(scores))], len(candidates)


def _candidates(declared: Parameters) -> Iterator[Parameters]:
    """Yield candidates, the declared parameters first: they win ties."""
    yield declared
    usual = LightGBMTraining()
    # Parameters of the objective, such as a quantile, are not tuned.
    own = declared.own if declared.objective else {}
    for trees, depth in ((usual.trees, usual.depth), (usual.trees // 4, usual.depth - 1)):
        other = replace(
            declared, trees=trees, depth=depth, learning_rate=usual.learning_rate, own=own
        )
        if other != declared:
            yield other
    if declared.trainer == "lightgbm":
        sampled = {"feature_fraction": 0.8, "bagging_fraction": 0.8, "bagging_freq": 1}
        yield replace(
            declared,
            trees=_TREES,
            depth=_DEPTH,
            learning_rate=usual.learning_rate,
            own={"num_leaves": 31, **sampled, **own},
            stop=Stop(_PATIENCE),
        )
