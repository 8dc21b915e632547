"""Predictions of many rows are LightGBM's own, to the last bit."""

from typing import Any

import lightgbm
import numpy as np
import pytest

from opboost_ops.boosting.lightgbm_scores import MANY, many_rows
from opboost_ops.boosting.trainer import predict

_ROWS = 2 * MANY


def _model(matrix: np.ndarray, **settings: Any) -> str:
    rng = np.random.default_rng(5)
    label = np.nan_to_num(matrix) @ rng.normal(size=matrix.shape[1]) + rng.normal(size=len(matrix))
    if settings["objective"] == "multiclass":
        label = np.digitize(label, [-1, 1])
    elif settings["objective"] != "regression":
        label = (label > 0).astype(float)
    nominal = settings.pop("nominal", [])
    data = lightgbm.Dataset(matrix, label, categorical_feature=nominal)
    settings = {"verbosity": -1, "num_threads": 1, "seed": 3, **settings}
    return str(lightgbm.train(settings, data, num_boost_round=12).model_to_string())


def _matrix(gaps: float, order: Any = "F") -> np.ndarray:
    rng = np.random.default_rng(4)
    matrix = rng.normal(size=(_ROWS, 5)).round(1)
    matrix[:, 4] = rng.integers(0, 6, _ROWS)
    matrix[rng.random(matrix.shape) < gaps] = np.nan
    return np.array(matrix, order=order)


@pytest.mark.parametrize("objective", ["binary", "regression"])
@pytest.mark.parametrize("leaves", [2, 8, 31])
@pytest.mark.parametrize("gaps", [0.0, 0.3])
def test_equal_to_lightgbm(objective: str, leaves: int, gaps: float) -> None:
    text = _model(_matrix(gaps), objective=objective, num_leaves=leaves)
    assert many_rows(text) is not None
    # Also where the model has seen no gap, and where rows follow one another in memory.
    for matrix in (_matrix(0.0), _matrix(0.2), _matrix(0.2, "C")):
        expected = lightgbm.Booster(model_str=text).predict(matrix)
        np.testing.assert_array_equal(predict(text, matrix), expected)


@pytest.mark.parametrize(
    "settings",
    [
        {"objective": "multiclass", "num_class": 3},
        {"objective": "binary", "nominal": [4], "min_data_per_group": 1, "cat_smooth": 0},
        {"objective": "binary", "num_leaves": 200},
        {"objective": "binary", "sigmoid": 2.0},
        {"objective": "binary", "zero_as_missing": True},
        {"objective": "binary", "linear_tree": True},
        {"objective": "binary", "boosting": "rf", "bagging_freq": 1, "bagging_fraction": 0.5},
        {"objective": "poisson"},
    ],
)
def test_other_models_are_lightgbms_to_predict(settings: dict[str, Any]) -> None:
    matrix = _matrix(0.1)
    text = _model(matrix, **settings)
    assert many_rows(text) is None
    expected = lightgbm.Booster(model_str=text).predict(matrix)
    np.testing.assert_array_equal(predict(text, matrix), expected)


def test_a_model_without_splits() -> None:
    text = _model(_matrix(0.0), objective="regression", min_data_in_leaf=_ROWS)
    expected = lightgbm.Booster(model_str=text).predict(_matrix(0.0))
    np.testing.assert_array_equal(predict(text, _matrix(0.0)), expected)
