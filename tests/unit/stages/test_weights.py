"""Weights of training rows are the same in memory and on disk."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import polars as pl
import pytest

from opboost_ops.errors import ContractError
from opboost_ops.scratch.arrays import ROWS, Scratch
from opboost_ops.stages.weights import require_labels, weights_in, weights_of

LABEL: Any = SimpleNamespace(column="y")
CLASSES = ["no", "yes"]


def rules(**declared: Any) -> Any:
    none = {"weight_column": None, "class_weight": None, "objective": None}
    return SimpleNamespace(**{**none, **declared})


@pytest.mark.parametrize("held", [ROWS, 1000])
@pytest.mark.parametrize("by_class", [None, "balanced", {"no": 1, "yes": 2.5}])
@pytest.mark.parametrize("column", [None, "w"])
def test_weights_are_what_is_declared_over_its_mean(
    tmp_path: Path, held: int, by_class: Any, column: str | None
) -> None:
    rng = np.random.default_rng(0)
    codes = (rng.random(300_001) < 0.1).astype(float)
    given = rng.random(len(codes)) if column else None
    training = rules(weight_column=column, class_weight=by_class)
    found = weights_of(given, training, LABEL, codes, CLASSES, Scratch(tmp_path, held))
    if not by_class and not column:
        assert found is None
        return
    wanted = np.ones(len(codes)) if given is None else given
    if by_class == "balanced":
        wanted = wanted * (len(codes) / (2 * np.bincount(codes.astype(int))))[codes.astype(int)]
    elif by_class:
        wanted = wanted * np.where(codes == 1, 2.5, 1.0)
    assert found is not None
    assert found.tobytes() == (wanted / wanted.mean()).tobytes()


def test_weights_of_training_rows_that_are_all_zero(tmp_path: Path) -> None:
    training = rules(weight_column="w")
    with pytest.raises(ContractError, match="weight_column w holds"):
        weights_of(np.zeros(9), training, LABEL, np.zeros(9), CLASSES, Scratch(tmp_path))
    for values in ([1.0, None], [1.0, -1.0], [1.0, float("nan")], ["1"]):
        with pytest.raises(ContractError, match="weight_column w holds"):
            weights_in(pl.Series("w", values))


@pytest.mark.parametrize("labels", [[[1.0], [-1.0]], [[0.0], [0.0]], [[1.0], [np.nan]], []])
def test_labels_of_counts(labels: list[list[float]]) -> None:
    with pytest.raises(ContractError, match="negative numbers"):
        require_labels(rules(objective="poisson"), map(np.array, labels))
    require_labels(rules(objective="l2"), map(np.array, labels))
    require_labels(rules(objective="poisson"), iter([np.zeros(2), np.ones(2)]))
