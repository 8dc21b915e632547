"""Training and predicting with a booster, on own values and others' dense ranks."""

import numpy as np

from opboost_ops.errors import ContractError
from opboost_ops.learning.boosters.backend import (
    Backend,
    Frame,
    Model,
    Parameters,
    Reader,
    Tell,
    Trainer,
    unheard,
)
from opboost_ops.learning.boosters.lightgbm_backend import LightGBM
from opboost_ops.learning.boosters.xgboost_backend import XGBoost
from opboost_ops.learning.private.backend import DPBoost
from opboost_ops.learning.private.noise import Memory

__all__ = [
    "BACKENDS",
    "READERS",
    "Frame",
    "Memory",
    "Parameters",
    "Trainer",
    "backend_of",
    "contributions",
    "explained",
    "format_of",
    "gains",
    "model_of",
    "predict",
    "train",
]

#: By the name in the federation file.
BACKENDS: dict[Trainer, Backend] = {
    "lightgbm": LightGBM(),
    "xgboost": XGBoost(),
    "dpboost": DPBoost(),
}

#: All model formats; of those that share a file name the first reads it.
READERS: tuple[Reader, ...] = tuple(BACKENDS.values())


def format_of(trainer: str) -> Reader:
    """In whose format a trainer writes its models; FederBoost's are LightGBM's.

    Args:
        trainer: As the federation file names it.
    """
    return next((backend for name, backend in BACKENDS.items() if name == trainer), LightGBM())


def backend_of(text: str) -> Reader:
    """Whose model a text is, by its first mark: no LightGBM text begins with a brace.

    Args:
        text: A model.
    """
    return BACKENDS["xgboost" if text.startswith("{") else "lightgbm"]


def model_of(text: str) -> Model:
    """A model's trees, to read and edit.

    Args:
        text: A model.

    Raises:
        ContractError: It is none.
    """
    return backend_of(text).parse(text)


def train(
    frame: Frame,
    label: np.ndarray,
    parameters: Parameters,
    memory: Memory | None = None,
    tell: Tell = unheard,
) -> str:
    """Train a model.

    No two ranks share a bin, so that training on ranks equals training on the values themselves.

    Args:
        frame: Training rows.
        label: Numbers or class indices, shape (n,).
        parameters: How, and with which booster.
        memory: Where DPBoost keeps what it has drawn; others need none.
        tell: Told after each boosting round.

    Returns:
        The booster's own text; the same input gives the same text, but with DPBoost, whose noise
        is drawn again unless the memory holds it.

    Raises:
        ContractError: There is no row or no feature to learn from; what can be predicted then is
            `metrics.constant_prediction`.
        ConfigError: The booster is not installed.
    """
    if not len(label) or not frame.names:
        raise ContractError("The training frame has no row or no feature.")
    backend = BACKENDS[parameters.trainer]
    if isinstance(backend, DPBoost):
        return backend.train(frame, label, parameters, tell, memory)
    return backend.train(frame, label, parameters, tell)


def predict(text: str, matrix: np.ndarray) -> np.ndarray:
    """Predict with the stock booster.

    Args:
        text: A model.
        matrix: float64, shape (n, features).

    Returns:
        Probabilities or numbers, float64, shape (n,), or (n, classes) for multiclass.
    """
    return backend_of(text).predict(text, _some_rows(matrix))[: len(matrix)]


def contributions(text: str, matrix: np.ndarray) -> np.ndarray:
    """The part of each column in each raw score: the booster's own SHAP values (TreeSHAP).

    Args:
        text: A model.
        matrix: float64, shape (n, features).

    Returns:
        In log odds, raw class scores or the label's unit, shape (n, scores, features), without
        the expected score; ``scores`` is the number of classes for multiclass, otherwise 1.
    """
    return explained(text, matrix)[:, :, :-1]


def explained(text: str, matrix: np.ndarray) -> np.ndarray:
    """`contributions` with the expected score last: the sum over the last axis is the raw score.

    Args:
        text: A model.
        matrix: float64, shape (n, features).

    Returns:
        Shape (n, scores, features + 1).
    """
    return backend_of(text).explained(text, _some_rows(matrix))[: len(matrix)]


def gains(text: str) -> np.ndarray:
    """Sum of the gains of each feature's splits, in training.

    Args:
        text: A model.

    Returns:
        float64, shape (features,).
    """
    return backend_of(text).gains(text)


def _some_rows(matrix: np.ndarray) -> np.ndarray:
    """The rows, or one of zeros where there is none: boosters predict no empty matrix."""
    return matrix if len(matrix) else np.zeros((1, matrix.shape[1]))
