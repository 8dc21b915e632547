"""Hyperparameter tuning in a run: trials at the label holder's home, and their best parameters."""

import hashlib
import json
import logging
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from opboost_ops.exchange.rounds.protocol import LOGGER
from opboost_ops.learning.boosters.backend import Frame, Parameters, Progress, silent
from opboost_ops.learning.tuning import FOLDS, trial_metric, tune
from opboost_ops.pipeline.home import ResumeLog
from opboost_ops.pipeline.stage import Home

_LOG = logging.getLogger(LOGGER)

#: In the home: the best parameters, and a log with one line per trial.
TUNED, _TRIALS = "tuned", "trials.jsonl"


def search(
    home: Home,
    frame: Frame,
    label: np.ndarray,
    parameters: Parameters,
    trials: int,
    progress: Progress = silent,
    stage: str = "train",
) -> dict[str, Any]:
    """Search for parameters; a retry resumes after the last logged trial.

    No trial requests anything from another party; only the best parameters' model leaves the home.

    Args:
        home: The run's home at the label holder.
        frame: Training rows in the booster's format.
        label: Numbers or class indices, shape (n,).
        parameters: The declared parameters.
        trials: Number of trials.
        progress: Called after each trial.
        stage: The stage that searches, for the log.

    Returns:
        A document for the home: the input of `with_tuned`, and facts for the model card.
    """
    log = ResumeLog(home, _TRIALS)
    of = _name(frame, label, parameters)
    scores = [line["score"] for line in map(json.loads, log.lines()) if line["of"] == of]

    def record(number: int, score: float) -> None:
        log.append(json.dumps({"of": of, "score": score}).encode())
        # No scores of trials: others may read this log.
        _LOG.info("trial %d of %d", number + 1, trials, extra={"stage": stage})
        progress("trials", number + 1, trials)

    result = tune(frame, label, parameters, trials, scores, record)
    best = result.parameters
    return {
        "trees": best.trees,
        "learning_rate": best.learning_rate,
        "depth": best.depth,
        "own": dict(best.own),
        "trials": len(result.scores),
        "folds": FOLDS,
        "metric": trial_metric(parameters),
        "declared_won": result.winner == 0,
    }


def with_tuned(home: Home, parameters: Parameters) -> Parameters:
    """Return the parameters tuned in this run; as declared if there was no search.

    Args:
        home: The run's home at the label holder.
        parameters: The declared parameters.
    """
    if not home.has(TUNED):
        return parameters
    return with_trial(parameters, home.json(TUNED))


def with_trial(parameters: Parameters, document: Mapping[str, Any]) -> Parameters:
    """Return parameters with the values of a document from `search`.

    Args:
        parameters: The declared parameters.
        document: The document.
    """
    names = ("trees", "learning_rate", "depth", "own")
    return replace(parameters, **{name: document[name] for name in names})


def _name(frame: Frame, label: np.ndarray, parameters: Parameters) -> str:
    """Return the name of a search, so that trials of other searches are not reused."""
    digest = hashlib.sha256(repr((frame.names, parameters)).encode())
    # The number of trials is left out: it changes no trial.
    digest.update(repr(FOLDS).encode())
    for part in (frame.matrix, label, frame.weight):
        digest.update(b"" if part is None else np.ascontiguousarray(part).tobytes())
    return digest.hexdigest()
