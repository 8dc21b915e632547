"""The baseline that a common model has to beat: the label holder's own columns, at their best.

What suits the common model may not suit fewer columns: a baseline that has to use the same 300
trees gets worse, and the common model then looks better. So the baseline has parameters of its
own, chosen by trials on training rows: those of `training.tuning`, otherwise at most three, which
are compared on a third of the rows.

Nothing of it comes from another party, so it is kept at home, and made again only if something of
its own has changed: rows, columns, labels, parameters or software.
"""

import hashlib
import io
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from opboost_ops import __version__
from opboost_ops.boosting import metrics, trainer, tuning
from opboost_ops.boosting.frame import Frame, Parameters
from opboost_ops.boosting.losses import trial_score
from opboost_ops.boosting.parts import folds
from opboost_ops.config.training import LightGBMTraining
from opboost_ops.errors import ContractError
from opboost_ops.stages.assemble import LABEL, frame_of
from opboost_ops.stages.home import Home
from opboost_ops.stages.stage import Context
from opboost_ops.stages.train import parameters_of
from opboost_ops.stages.tuning_search import search, with_trial

#: Where the party's folder of the federation keeps the last baseline.
_LAST, _PREDICTION = "alone", "alone.npy"

#: At most so many training rows are in the trials without `training.tuning`; one part of so many
#: judges models of the others.
_ROWS, _PARTS = 50_000, 3


@dataclass(frozen=True)
class Baseline:
    """What the label holder's columns predict alone.

    Attributes:
        prediction: Of the held-out rows.
        chosen: The parameters and how many were tried, for the card; empty without own columns.
    """

    prediction: np.ndarray
    chosen: Mapping[str, Any]


def baseline(context: Context, facts: Mapping[str, Any], holdout: pa.Table) -> Baseline:
    """Train on the label holder's columns alone, with the best parameters tried, and predict.

    Args:
        context: The label holder's.
        facts: What `assemble` says of the frame.
        holdout: The held-out rows.
    """
    table = context.home.table("frame")
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
    software = (__version__, np.__version__, trainer.format_of(declared.trainer).version())
    how = (declared, training.tuning, classes, _ROWS, _PARTS, software)
    made_of = _fingerprint(own, label, held_out, repr(how))
    # Beside the runs, as it outlives them.
    kept = Home(context.home.folder.parent)
    if (known := _known(kept, made_of)) is not None:
        return known
    if training.tuning is not None:
        look = training.tuning
        found = search(context.home, own, label, declared, look, context.tell, "evaluate")
        best, metric = with_trial(declared, found), found["metric"]
        tried, parts = found["trials"], found["folds"]
    else:
        metric, parts = tuning.metric_of(declared), 1
        best, tried = _best(own, label, declared, metric)
    model = trainer.train(own, label, best, tell=context.tell)
    chosen = {"trees": best.trees, "learning_rate": best.learning_rate, "depth": best.depth}
    chosen |= {"trials": tried, "metric": metric, "folds": parts}
    made = Baseline(trainer.predict(model, held_out), chosen)
    _keep(kept, made_of, made)
    return made


def baselines_of(home: Path) -> list[Path]:
    """Files of baselines that are kept: predictions of held-out rows are among them.

    Args:
        home: The party's, with the folders of its federations.
    """
    return [path for name in (f"{_LAST}.json", _PREDICTION) for path in home.glob(f"*/{name}")]


def _fingerprint(own: Frame, label: np.ndarray, held_out: np.ndarray, words: str) -> str:
    """A digest of all that the baseline is made of."""
    digest = hashlib.blake2b(digest_size=32)
    parts = [own.names, own.categorical, own.ranked, own.thresholds, own.categories]
    digest.update(repr((words, parts)).encode())
    weight = np.empty(0) if own.weight is None else own.weight
    for array in (own.matrix, label, weight, held_out):
        digest.update(repr((array.shape, array.dtype.str)).encode())
        digest.update(np.ascontiguousarray(array.T).view(np.uint8).data)
    return digest.hexdigest()


def _known(kept: Home, made_of: str) -> Baseline | None:
    """The last baseline, if it was made of the same and is as it was written."""
    try:
        last = kept.json(_LAST) if kept.has(_LAST) else {}
        if last.get("made_of") != made_of:
            return None
        content = kept.read(_PREDICTION)
    except (ContractError, OSError, ValueError):
        return None
    if hashlib.sha256(content).hexdigest() != last["prediction"]:
        return None
    return Baseline(np.load(io.BytesIO(content), allow_pickle=False), last["chosen"])


def _keep(kept: Home, made_of: str, found: Baseline) -> None:
    content = io.BytesIO()
    np.save(content, found.prediction, allow_pickle=False)
    kept.write(_PREDICTION, content.getvalue())
    digest = hashlib.sha256(content.getvalue()).hexdigest()
    chosen = dict(found.chosen)
    kept.write_json(_LAST, {"made_of": made_of, "prediction": digest, "chosen": chosen})


def _best(
    own: Frame, label: np.ndarray, declared: Parameters, metric: str
) -> tuple[Parameters, int]:
    """The best of the declared parameters and two others, and how many were tried."""
    # Their order follows from a key, so that each so many of them are like the others.
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
            trainer.train_and_predict(learns, truth[~judges], each, matrix),
        )
        for each in candidates
    ]
    return candidates[int(np.argmax(scores))], len(candidates)


def _candidates(declared: Parameters) -> Iterator[Parameters]:
    """The declared parameters first: of equals they are chosen."""
    yield declared
    usual = LightGBMTraining()
    # A parameter of the objective, such as a quantile, is no matter of choice.
    own = declared.own if declared.objective else {}
    for trees, depth in ((usual.trees, usual.depth), (usual.trees // 4, usual.depth - 1)):
        other = replace(
            declared, trees=trees, depth=depth, learning_rate=usual.learning_rate, own=own
        )
        if other != declared:
            yield other
