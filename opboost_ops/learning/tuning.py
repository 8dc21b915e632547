"""Parameter search by cross-validation on the training rows, without requests to other parties.

The first trial uses the declared parameters, so the result is never worse by the trials' metric.
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

#: A trial may use at least this many boosting rounds.
_MIN_TREES = 300

#: Number of folds of the training rows.
FOLDS = 3


@dataclass(frozen=True)
class TuningResult:
    """The result of a search.

    Attributes:
        parameters: Parameters of the best trial; the declared ones if no trial was better.
        winner: Number of the best trial, from 0.
        scores: Scores of all trials on training rows; greater is better. They stay at home.
    """

    parameters: Parameters
    winner: int
    scores: tuple[float, ...]


def require() -> None:
    """Raise ConfigError if Optuna is not installed."""
    require_extra("optuna", "Optuna", "training.tuning is declared", "tuning")


def trial_metric(parameters: Parameters) -> str:
    """Return the metric by which trials are compared, from the task and the objective."""
    if parameters.task == "regression" and parameters.objective not in ("", "l2"):
        return "loss"
    return main_metric(parameters.task)


def tune(
    frame: Frame,
    label: np.ndarray,
    parameters: Parameters,
    trials: int,
    earlier: Sequence[float] = (),
    on_trial: Callable[[int, float], None] = lambda _number, _score: None,
) -> TuningResult:
    """Search for better parameters.

    The search covers boosting rounds, learning rate, depth, least rows per leaf, shares of columns
    and rows per tree, and the penalty on leaves. It does not change a parameter that is declared
    by the booster's own name.

    Args:
        frame: Training rows.
        label: Numbers or class indices, shape (n,).
        parameters: The declared parameters; their seed determines the trials.
        trials: Number of trials, including the one with the declared parameters.
        earlier: Scores of the first trials, from an interrupted search.
        on_trial: Called with number and score of each further trial.

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
    metric = trial_metric(parameters)
    candidates: list[Parameters] = []
    scores: list[float] = []
    while len(scores) < trials:
        trial = None if not scores else study.ask()
        candidate = parameters if trial is None else suggest(trial, parameters, len(label))
        number = len(scores)
        if number < len(earlier):
            score = earlier[number]
        else:
            prediction = out_of_fold_predictions(frame, label, candidate, part)
            score = trial_score(metric, candidate, label, prediction)
            on_trial(number, score)
        if trial is not None:
            study.tell(trial, score)
        candidates.append(candidate)
        scores.append(score)
    winner = int(np.argmax(scores))
    return TuningResult(candidates[winner], winner, tuple(scores))


def out_of_fold_predictions(
    frame: Frame, label: np.ndarray, parameters: Parameters, part: np.ndarray
) -> np.ndarray:
    """Predict each fold by a model that is trained on all other folds.

    Args:
        frame: Training rows.
        label: Numbers or class indices, shape (n,).
        parameters: Training parameters.
        part: Fold of each row, shape (n,).

    Returns:
        Predictions, shape (n,), or (n, classes) for multiclass.
    """
    several = parameters.task == "multiclass"
    predictions = np.empty((len(label), parameters.classes) if several else len(label))
    for number in np.unique(part):
        in_fold = part == number
        training, matrix = frame.rows(~in_fold), frame.rows(in_fold).matrix
        predictions[in_fold] = trainer.predict(
            trainer.train(training, label[~in_fold], parameters), matrix
        )
    return predictions


def suggest(trial: "optuna.Trial", parameters: Parameters, rows: int) -> Parameters:
    """Return the parameters of a trial.

    Args:
        trial: Optuna's trial.
        parameters: The declared parameters.
        rows: Number of training rows.
    """
    most = max(2 * parameters.trees, _MIN_TREES)
    deepest = max(8, parameters.depth)
    # Trees must be deep enough for the declared number of leaves.
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


def _suggest_lightgbm(trial: "optuna.Trial", rows: int) -> dict[str, Any]:
    most = max(10, min(500, rows // 20))
    return {
        "min_data_in_leaf": trial.suggest_int("min_data_in_leaf", 5, most, log=True),
        "lambda_l2": trial.suggest_float("lambda_l2", 1e-3, 30.0, log=True),
        "feature_fraction": trial.suggest_float("feature_fraction", 0.4, 1.0),
        "bagging_fraction": trial.suggest_float("bagging_fraction", 0.5, 1.0),
        "bagging_freq": 1,
    }


def _suggest_xgboost(trial: "optuna.Trial", rows: int) -> dict[str, Any]:
    most = max(10.0, min(200.0, rows / 50))
    return {
        "min_child_weight": trial.suggest_float("min_child_weight", 0.5, most, log=True),
        "lambda": trial.suggest_float("lambda", 1e-3, 30.0, log=True),
        "colsample_bytree": trial.suggest_float("colsample_bytree", 0.4, 1.0),
        "subsample": trial.suggest_float("subsample", 0.5, 1.0),
    }


_SPACES: Mapping[str, Callable[["optuna.Trial", int], dict[str, Any]]] = {
    "lightgbm": _suggest_lightgbm,
    "xgboost": _suggest_xgboost,
}
