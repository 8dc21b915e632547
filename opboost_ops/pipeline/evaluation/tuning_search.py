"""Tuning in a run: trials at the label holder's home, and the parameters that were found there."""

import hashlib
import json
import logging
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from opboost_ops.exchange.rounds.protocol import LOGGER
from opboost_ops.learning.boosters.backend import Frame, Parameters, Tell, unheard
from opboost_ops.learning.tuning import FOLDS, metric_of, tune
from opboost_ops.pipeline.home import ResumeLog
from opboost_ops.pipeline.stage import Home

_LOG = logging.getLogger(LOGGER)

#: In the home: the winner's parameters, and beside it a line a trial.
TUNED, _TRIALS = "tuned", "trials.jsonl"


def search(
    home: Home,
    frame: Frame,
    label: np.ndarray,
    parameters: Parameters,
    trials: int,
    heard: Tell = unheard,
    stage: str = "train",
) -> dict[str, Any]:
    """Look for parameters; a retry goes on after the last trial that was kept.

    No trial asks another party for anything, and what it gave leaves the home by nothing but the
    winner's model.

    Args:
        home: Of the run, at the label holder.
        frame: Training rows, as the booster takes them.
        label: Numbers or class indices, shape (n,).
        parameters: As declared.
        trials: How many.
        heard: Told after each trial.
        stage: Which stage looks, for the log.

    Returns:
        A document for the home: what `with_tuned` reads, and facts for the card.
    """
    log = ResumeLog(home, _TRIALS)
    of = _name(frame, label, parameters)
    scores = [line["score"] for line in map(json.loads, log.lines()) if line["of"] == of]

    def tell(number: int, score: float) -> None:
        log.append(json.dumps({"of": of, "score": score}).encode())
        # How good a trial was is told nobody: this goes where others may read.
        _LOG.info("trial %d of %d", number + 1, trials, extra={"stage": stage})
        heard("trials", number + 1, trials)

    result = tune(frame, label, parameters, trials, scores, tell)
    best = result.parameters
    return {
        "trees": best.trees,
        "learning_rate": best.learning_rate,
        "depth": best.depth,
        "own": dict(best.own),
        "trials": len(result.scores),
        "folds": FOLDS,
        "metric": metric_of(parameters),
        "declared_won": result.winner == 0,
    }


def with_tuned(home: Home, parameters: Parameters) -> Parameters:
    """Parameters as they were found in this run; as declared where nothing was looked for.

    Args:
        home: Of the run, at the label holder.
        parameters: As declared.
    """
    if not home.has(TUNED):
        return parameters
    return with_trial(parameters, home.json(TUNED))


def with_trial(parameters: Parameters, document: Mapping[str, Any]) -> Parameters:
    """Parameters as a document of `search` has them.

    Args:
        parameters: As declared.
        document: The document.
    """
    names = ("trees", "learning_rate", "depth", "own")
    return replace(parameters, **{name: document[name] for name in names})


def _name(frame: Frame, label: np.ndarray, parameters: Parameters) -> str:
    """Of a search: another one's trials are none of its own."""
    digest = hashlib.sha256(repr((frame.names, parameters)).encode())
    # How many trials there are to be changes none of them.
    digest.update(repr(FOLDS).encode())
    for part in (frame.matrix, label, frame.weight):
        digest.update(b"" if part is None else np.ascontiguousarray(part).tobytes())
    return digest.hexdigest()
