"""Weights of training rows are the same in memory and on disk."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import polars as pl
import pytest

from opboost_ops.errors import ContractError
from opboost_ops.pipeline.inputs.holdout import require_labels, weights_in, weights_of
from opboost_ops.tables.spill.arrays import ROWS, Scratch

LABEL: Any = SimpleNamespace(column="y")
CLASSES = ["no", "yes"]


def rules(**declared: Any) -> Any:
    none = {"weight_column": None, "objective": None}
    return SimpleNamespace(**{**none, **declared})


@pytest.mark.parametrize("held", [ROWS, 1000])
def test_weights_are_those_of_the_column_over_their_mean(tmp_path: Path, held: int) -> None:
    weights = np.random.default_rng(0).random(300_001)
    scaled = weights_of("w", weights, Scratch(tmp_path, held))
    assert scaled.tobytes() == (weights / weights.mean()).tobytes()


def test_weights_of_training_rows_that_are_all_zero(tmp_path: Path) -> None:
    with pytest.raises(ContractError, match="weight_column w holds"):
        weights_of("w", np.zeros(9), Scratch(tmp_path))
    for values in ([1.0, None], [1.0, -1.0], [1.0, float("nan")], ["1"]):
        with pytest.raises(ContractError, match="weight_column w holds"):
            weights_in(pl.Series("w", values))


@pytest.mark.parametrize("labels", [[[1.0], [-1.0]], [[0.0], [0.0]], [[1.0], [np.nan]], []])
def test_labels_of_counts(labels: list[list[float]]) -> None:
    with pytest.raises(ContractError, match="negative numbers"):
        require_labels(rules(objective="poisson"), map(np.array, labels))
    require_labels(rules(objective="l2"), map(np.array, labels))
    require_labels(rules(objective="poisson"), iter([np.zeros(2), np.ones(2)]))
