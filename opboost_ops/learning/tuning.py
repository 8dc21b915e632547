"""Parameters looked for on training rows: the party that holds them asks no other party.

Each trial trains on all but one of some folds and predicts that one. The first trial is what was
declared, so that what is found is never worse by the trials' own metric.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from opboost_ops.config.resources import require_extra
from opboost_ops.learning.boosters import trainer
from opboost_ops.learning.boosters.backend import Frame, Parameters, folds
from opboost_ops.learning.metrics import main_metric, trial_score

if TYPE_CHECKING:
    import optuna

#: At least so many boosting rounds are within reach of a trial.
_TREES = 300

#: Parts of the training rows, each predicted by a model of the others.
FOLDS = 3


@dataclass(frozen=True)
class TuningResult:
    """The result of a search.

    Attributes:
        parameters: Of the best trial; the declared ones if none was better.
        winner: Its number, from 0.
        scores: Of all trials; greater is better. They are of the training rows and stay at home.
    """

    parameters: Parameters
    winner: int
    scores: tuple[float, ...]


def require() -> None:
    """Make sure that Optuna is there.

    Raises:
        ConfigError: It is not installed.
    """
    require_extra("optuna", "Optuna", "training.tuning is declared", "tuning")


def metric_of(parameters: Parameters) -> str:
    """By what trials are compared.

    Args:
        parameters: Task and objective.
    """
    if parameters.task == "regression" and parameters.objective not in ("", "l2"):
        return "loss"
    return main_metric(parameters.task)


def tune(
    frame: Frame,
    label: np.ndarray,
    parameters: Parameters,
    trials: int,
    earlier: Sequence[float] = (),
    tell: Callable[[int, float], None] = lambda _number, _score: None,
) -> TuningResult:
    """Look for better parameters.

    What is declared by a booster's own name is kept; looked for are rounds, shrinkage, depth, and
    what else there is of rows in a leaf, columns and rows of a tree, and a penalty on leaves.

    Args:
        frame: Training rows.
        label: Numbers or class indices, shape (n,).
        parameters: As declared; the seed decides which trials there are.
        trials: How many, the declared parameters among them.
        earlier: Scores of trials that an earlier try of the same search has made.
        tell: Called with number and score of each further trial.

    Raises:
        ConfigError: Optuna is not installed.
    """
    require()
    import optuna

    optuna.logging.set_verbosity(optuna.logging.WARNING)
    study = optuna.create_study(
        direction="maximize", sampler=optuna.samplers.TPESampler(seed=parameters.seed)
    )
    part = folds(label, FOLDS, parameters.seed, "tuning")
    metric = metric_of(parameters)
    tried: list[Parameters] = []
    scores: list[float] = []
    while len(scores) < trials:
        trial = None if not scores else study.ask()
        candidate = parameters if trial is None else suggested(trial, parameters, len(label))
        number = len(scores)
        if number < len(earlier):
            score = earlier[number]
        else:
            prediction = predicted(frame, label, candidate, part)
            score = trial_score(metric, candidate, label, prediction)
            tell(number, score)
        if trial is not None:
            study.tell(trial, score)
        tried.append(candidate)
        scores.append(score)
    winner = int(np.argmax(scores))
    return TuningResult(tried[winner], winner, tuple(scores))


def predicted(
    frame: Frame, label: np.ndarray, parameters: Parameters, part: np.ndarray
) -> np.ndarray:
    """Predictions of each part by models of all other parts.

    Args:
        frame: Training rows.
        label: Numbers or class indices, shape (n,).
        parameters: How.
        part: Which part each row is in, shape (n,).

    Returns:
        Predictions, shape (n,), or (n, classes) for multiclass.
    """
    several = parameters.task == "multiclass"
    predictions = np.empty((len(label), parameters.classes) if several else len(label))
    for number in np.unique(part):
        here = part == number
        others, matrix = frame.rows(~here), frame.rows(here).matrix
        predictions[here] = trainer.predict(trainer.train(others, label[~here], parameters), matrix)
    return predictions


def suggested(trial: "optuna.Trial", parameters: Parameters, rows: int) -> Parameters:
    """The parameters that a trial is to try.

    Args:
        trial: Optuna's.
        parameters: As declared.
        rows: How many training rows there are.
    """
    most = max(2 * parameters.trees, _TREES)
    deepest = max(8, parameters.depth)
    # So deep that the declared leaves fit in.
    least = (int(parameters.own.get("num_leaves", 2)) - 1).bit_length()
    candidate = replace(
        parameters,
        trees=trial.suggest_int("trees", min(20, parameters.trees), most, log=True),
        learning_rate=trial.suggest_float("learning_rate", 0.02, 0.3, log=True),
        depth=trial.suggest_int("depth", max(least, 1), deepest),
    )
    space = _SPACES[parameters.trainer](trial, rows)
    if "bagging_fraction" in parameters.own or "bagging_freq" in parameters.own:
        space.pop("bagging_fraction"), space.pop("bagging_freq")
    return replace(candidate, own={**space, **parameters.own})


def _lightgbm(trial: "optuna.Trial", rows: int) -> dict[str, Any]:
    most = max(10, min(500, rows // 20))
    return {
        "min_data_in_leaf": trial.suggest_int("min_data_in_leaf", 5, most, log=True),
        "lambda_l2": trial.suggest_float("lambda_l2", 1e-3, 30.0, log=True),
        "feature_fraction": trial.suggest_float("feature_fraction", 0.4, 1.0),
        "bagging_fraction": trial.suggest_float("bagging_fraction", 0.5, 1.0),
        "bagging_freq": 1,
    }


def _xgboost(trial: "optuna.Trial", rows: int) -> dict[str, Any]:
    most = max(10.0, min(200.0, rows / 50))
    return {
        "min_child_weight": trial.suggest_float("min_child_weight", 0.5, most, log=True),
        "lambda": trial.suggest_float("lambda", 1e-3, 30.0, log=True),
        "colsample_bytree": trial.suggest_float("colsample_bytree", 0.4, 1.0),
        "subsample": trial.suggest_float("subsample", 0.5, 1.0),
    }


_SPACES: Mapping[str, Callable[["optuna.Trial", int], dict[str, Any]]] = {
    "lightgbm": _lightgbm,
    "xgboost": _xgboost,
}
