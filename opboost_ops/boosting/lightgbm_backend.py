"""Stock LightGBM: the default booster."""

import json
from typing import TYPE_CHECKING, Any

import numpy as np

from opboost_ops.boosting.frame import Frame, Parameters, threads_for
from opboost_ops.boosting.lightgbm_text import TextModel

if TYPE_CHECKING:
    import lightgbm

_OBJECTIVES = {"binary": "binary", "multiclass": "multiclass", "regression": "regression"}
_OWN_BINS = 255


class LightGBM:
    """LightGBM behind the protocol."""

    name = "LightGBM"
    file = "model.txt"
    forms: tuple[str, ...] = ("text", "json")

    def require(self) -> None:
        """LightGBM is no extra: it is there."""

    def version(self) -> str:
        """Of the library."""
        import lightgbm

        return str(lightgbm.__version__)

    def parse(self, text: str) -> TextModel:
        """Read a text model."""
        return TextModel.parse(text)

    def train(self, frame: Frame, label: np.ndarray, parameters: Parameters) -> str:
        """Train with a bin for each rank.

        Args:
            frame: Training rows.
            label: Numbers or class indices, shape (n,).
            parameters: How.

        Returns:
            The text model, without what differs from machine to machine.
        """
        import lightgbm

        settings = settings_of(frame, frame.matrix.max(axis=0), len(label), parameters)
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
        local = r"tree_sizes=|\[(num_threads|data|valid|output_model|input_model):"
        return model.without(local).text()

    def predict(self, text: str, matrix: np.ndarray) -> np.ndarray:
        """Predict as stock LightGBM does."""
        threads = threads_for(matrix.size)
        return np.asarray(booster_of(text).predict(matrix, num_threads=threads))

    def contributions(self, text: str, matrix: np.ndarray) -> np.ndarray:
        """LightGBM's own SHAP values (TreeSHAP)."""
        features = matrix.shape[1]
        booster = booster_of(text)
        threads = threads_for(matrix.size * booster.num_trees())
        found = np.asarray(booster.predict(matrix, pred_contrib=True, num_threads=threads))
        return found.reshape(len(matrix), -1, features + 1)[:, :, :features]

    def gains(self, text: str) -> np.ndarray:
        """Sums of gains, float64, shape (features,)."""
        return np.asarray(booster_of(text).feature_importance("gain"))

    def export(self, text: str, form: str) -> str:
        """``text``, LightGBM's own file, or ``json``, what its ``dump_model`` gives."""
        if form == "text":
            return text
        # Python writes the shortest decimal that reads back as the same float.
        return json.dumps(booster_of(text).dump_model(), allow_nan=False, indent=1)


def settings_of(
    frame: Frame, highest: np.ndarray, rows: int, parameters: Parameters
) -> dict[str, Any]:
    """LightGBM's own parameters, with a bin for each rank.

    Args:
        frame: Which columns there are; its rows may be some of them.
        highest: The greatest number of each column, shape (features,).
        rows: How many rows there are in all.
        parameters: How.
    """
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
        "num_threads": parameters.threads or threads_for(rows * len(frame.names)),
        "verbosity": -1,
    }
    if parameters.penalty is not None:
        settings["lambda_l2"] = parameters.penalty
    if parameters.least_leaf is not None:
        settings["min_data_in_leaf"] = parameters.least_leaf
    if parameters.task == "multiclass":
        settings["num_class"] = parameters.classes
    return settings


def booster_of(text: str) -> "lightgbm.Booster":
    """The model as stock LightGBM loads it."""
    import lightgbm

    return lightgbm.Booster(model_str=text)
