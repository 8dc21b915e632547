"""Training and prediction with any booster, on own values and other parties' dense ranks."""

from collections.abc import Sequence

import numpy as np

from opboost_ops.config.faults.training import objective_of
from opboost_ops.config.parameters import MONOTONE
from opboost_ops.config.training import (
    BoosterTraining,
    DPBoostTraining,
    FederBoostTraining,
    Training,
)
from opboost_ops.errors import ContractError
from opboost_ops.learning.boosters.backend import (
    Backend,
    Frame,
    Model,
    ModelFormat,
    Parameters,
    Private,
    Progress,
    Stop,
    Trainer,
    silent,
)
from opboost_ops.learning.boosters.lightgbm_backend import LightGBM
from opboost_ops.learning.boosters.xgboost_backend import XGBoost
from opboost_ops.learning.private.backend import DPBoost
from opboost_ops.learning.private.noise import Memory

__all__ = [
    "BACKENDS",
    "MODEL_FORMATS",
    "Frame",
    "Memory",
    "Parameters",
    "Trainer",
    "backend_of",
    "contributions",
    "format_of",
    "gains",
    "model_of",
    "parameters_of",
    "predict",
    "shap_values",
    "train",
]

#: Boosters by their name in the federation file.
BACKENDS: dict[Trainer, Backend] = {
    "lightgbm": LightGBM(),
    "xgboost": XGBoost(),
    "dpboost": DPBoost(),
}

#: All model formats; the first with a file name reads files of that name.
MODEL_FORMATS: tuple[ModelFormat, ...] = tuple(BACKENDS.values())


def format_of(trainer: str) -> ModelFormat:
    """Return the model format of a trainer; FederBoost uses LightGBM's.

    Args:
        trainer: Name in the federation file.
    """
    return next((backend for name, backend in BACKENDS.items() if name == trainer), LightGBM())


def parameters_of(
    training: Training,
    task: str,
    classes: Sequence[str | int],
    label_bounds: tuple[float, float] | None = None,
) -> Parameters:
    """Return the booster's parameters.

    Args:
        training: The declared training.
        task: The label's task.
        classes: The label's classes; empty for regression.
        label_bounds: Declared bounds of a numeric label, which DPBoost needs.
    """
    private = None
    if isinstance(training, DPBoostTraining):
        private = Private(
            epsilon=training.private.epsilon,
            label_bounds=label_bounds if task == "regression" else None,
            random=training.private.splits == "random",
            delta=training.private.delta,
        )
    assert not isinstance(training, FederBoostTraining)
    objective = ""
    if isinstance(training, BoosterTraining) and training.objective:
        objective = objective_of(training, task)
    own = {name: value for name, value in training.parameters.items() if name != MONOTONE}
    rounds = training.early_stopping
    return Parameters(
        task=task,  # type: ignore[arg-type]
        classes=len(classes),
        trees=training.trees,
        learning_rate=training.learning_rate,
        depth=training.depth,
        seed=0,
        trainer=training.trainer,
        private=private,
        objective=objective,
        own=own,
        monotone=training.parameters.get(MONOTONE, {}),
        stop=Stop(rounds) if rounds else None,
    )


def backend_of(text: str) -> ModelFormat:
    """Return the format of a model's text; only XGBoost's begins with a brace."""
    return BACKENDS["xgboost" if text.startswith("{") else "lightgbm"]


def model_of(text: str) -> Model:
    """Parse a model's text.

    Raises:
        ContractError: The text is not a model.
    """
    return backend_of(text).parse(text)


def train(
    frame: Frame,
    label: np.ndarray,
    parameters: Parameters,
    memory: Memory | None = None,
    progress: Progress = silent,
) -> str:
    """Train a model.

    No two ranks share a bin, so training on ranks is equivalent to training on the values.

    Args:
        frame: Training rows.
        label: Numbers or class indices, shape (n,).
        parameters: Training parameters, including the booster.
        memory: Storage for DPBoost's draws; other boosters need none.
        progress: Called after each boosting round.

    Returns:
        The model's text. The same input gives the same text, except with DPBoost, which draws new
        noise unless the memory contains it.

    Raises:
        ContractError: The frame has no row or no feature; use `metrics.constant_prediction`.
        ConfigError: The booster is not installed.
    """
    if not len(label) or not frame.names:
        raise ContractError("The training frame has no row or no feature.")
    backend = BACKENDS[parameters.trainer]
    if isinstance(backend, DPBoost):
        return backend.train(frame, label, parameters, progress, memory)
    return backend.train(frame, label, parameters, progress)


def predict(text: str, matrix: np.ndarray) -> np.ndarray:
    """Predict with the stock booster.

    Args:
        text: The model's text.
        matrix: float64, shape (n, features).

    Returns:
        Probabilities or numbers, float64, shape (n,), or (n, classes) for multiclass.
    """
    return backend_of(text).predict(text, _at_least_one_row(matrix))[: len(matrix)]


def contributions(text: str, matrix: np.ndarray) -> np.ndarray:
    """Return the contribution of each column to each raw score: SHAP values (TreeSHAP).

    Args:
        text: The model's text.
        matrix: float64, shape (n, features).

    Returns:
        Log odds, raw class scores or the label's unit, shape (n, scores, features), without the
        expected score; ``scores`` is the number of classes for multiclass, otherwise 1.
    """
    return shap_values(text, matrix)[:, :, :-1]


def shap_values(text: str, matrix: np.ndarray) -> np.ndarray:
    """Return `contributions` followed by the expected score; the last axis sums to the raw score.

    Args:
        text: The model's text.
        matrix: float64, shape (n, features).

    Returns:
        Shape (n, scores, features + 1).
    """
    return backend_of(text).shap_values(text, _at_least_one_row(matrix))[: len(matrix)]


def gains(text: str) -> np.ndarray:
    """Return the total gain of each feature's splits in training, float64, shape (features,)."""
    return backend_of(text).gains(text)


def _at_least_one_row(matrix: np.ndarray) -> np.ndarray:
    """Return the rows, or one row of zeros if there is none: boosters reject an empty matrix."""
    return matrix if len(matrix) else np.zeros((1, matrix.shape[1]))
