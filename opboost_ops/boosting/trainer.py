"""Training and predicting with stock LightGBM, on own values and others' dense ranks."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from opboost_ops.boosting.lightgbm_text import TextModel
from opboost_ops.errors import ContractError

if TYPE_CHECKING:
    import lightgbm

_OBJECTIVES = {"binary": "binary", "multiclass": "multiclass", "regression": "regression"}
_OWN_BINS = 255

#: Cells below which a second thread costs more than it gives, most of all on a busy machine.
_SMALL = 250_000


@dataclass(frozen=True)
class Parameters:
    """How the booster is trained.

    Attributes:
        task: What is learnt.
        classes: How many classes; 0 for regression.
        trees: Boosting rounds.
        learning_rate: Shrinkage.
        depth: Deepest leaf; a tree has at most 2^depth leaves.
        seed: LightGBM's own seed.
        threads: 0 for as many as the frame is worth.
    """

    task: Literal["binary", "multiclass", "regression"]
    classes: int
    trees: int
    learning_rate: float
    depth: int
    seed: int
    threads: int = 0


@dataclass(frozen=True, eq=False)
class Frame:
    """Features as the booster takes them.

    Attributes:
        names: Full feature names, ``<party>.<feature>``.
        matrix: float64, shape (n, features).
        categorical: Own nominal features: codes from 0, NaN for missing or unknown.
        ranked: Features of others: dense ranks 1..k, every one of them present.
    """

    names: tuple[str, ...]
    matrix: np.ndarray
    categorical: tuple[str, ...]
    ranked: tuple[str, ...]


def train(frame: Frame, label: np.ndarray, parameters: Parameters) -> str:
    """Train a model.

    Ranks get a bin each, so that training on ranks equals training on the values themselves.

    Args:
        frame: Training rows.
        label: Numbers or class indices, shape (n,).
        parameters: How.

    Returns:
        LightGBM's text model; the same input gives the same text.

    Raises:
        ContractError: There is no row or no feature to learn from; what can be predicted then is
            `metrics.constant_prediction`.
    """
    import lightgbm

    rows = len(label)
    if not rows or not frame.names:
        raise ContractError("The training frame has no row or no feature.")
    highest = frame.matrix.max(axis=0)
    bins = [
        max(int(high) + 2, 3) if name in frame.ranked else _OWN_BINS
        for name, high in zip(frame.names, highest, strict=True)
    ]
    settings: dict[str, Any] = {
        "objective": _OBJECTIVES[parameters.task],
        "learning_rate": parameters.learning_rate,
        "max_depth": parameters.depth,
        "num_leaves": 2**parameters.depth,
        "max_bin_by_feature": bins,
        "max_bin": max(bins),
        "min_data_in_bin": 1,
        "bin_construct_sample_cnt": rows,
        "feature_pre_filter": False,
        "deterministic": True,
        "force_col_wise": True,
        "seed": parameters.seed,
        "num_threads": parameters.threads or _threads(frame.matrix.size),
        "verbosity": -1,
    }
    if parameters.task == "multiclass":
        settings["num_class"] = parameters.classes
    data = lightgbm.Dataset(
        frame.matrix,
        label=label,
        feature_name=list(frame.names),
        categorical_feature=[frame.names.index(name) for name in frame.categorical],
        params=settings,
        free_raw_data=True,
    )
    booster = lightgbm.train(settings, data, num_boost_round=parameters.trees)
    model = TextModel.parse(booster.model_to_string())
    return model.without(r"tree_sizes=|\[(num_threads|data|valid|output_model|input_model):").text()


def predict(text: str, matrix: np.ndarray) -> np.ndarray:
    """Predict with stock LightGBM.

    Args:
        text: A text model.
        matrix: float64, shape (n, features).

    Returns:
        Probabilities or numbers, shape (n,), or (n, classes) for multiclass.
    """
    return np.asarray(booster_of(text).predict(matrix, num_threads=_threads(matrix.size)))


def contributions(text: str, matrix: np.ndarray) -> np.ndarray:
    """What each column adds to each raw score: LightGBM's own SHAP values (TreeSHAP).

    Args:
        text: A text model.
        matrix: float64, shape (n, features).

    Returns:
        In log odds, raw class scores or the label's unit, shape (n, scores, features), without
        the expected score; ``scores`` is the number of classes for multiclass, otherwise 1.
    """
    features = matrix.shape[1]
    booster = booster_of(text)
    threads = _threads(matrix.size * booster.num_trees())
    found = np.asarray(booster.predict(matrix, pred_contrib=True, num_threads=threads))
    return found.reshape(len(matrix), -1, features + 1)[:, :, :features]


def _threads(cells: int) -> int:
    return 1 if cells < _SMALL else 0


def booster_of(text: str) -> "lightgbm.Booster":
    """The model as stock LightGBM loads it."""
    import lightgbm

    return lightgbm.Booster(model_str=text)
