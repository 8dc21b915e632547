"""Importance: SHAP values by feature, on rows that are chosen without chance."""

import itertools

import numpy as np
import pytest

from opboost_ops.config.training import LightGBMTraining
from opboost_ops.learning.boosters.lightgbm_backend import load_booster
from opboost_ops.learning.boosters.trainer import Frame, Parameters, contributions, train
from opboost_ops.learning.registry import importance
from opboost_ops.learning.registry.importance import columns_by_feature, importance_of, rows_for
from opboost_ops.pipeline.inputs.model_columns import frame_of
from opboost_ops.pipeline.stage import Home
from tests.federation import Workspace


def test_a_features_columns_are_added_before_the_absolute_value(trained_once: Workspace) -> None:
    federation = trained_once.declared
    groups = columns_by_feature(federation)
    names = tuple(itertools.chain(*groups.values()))
    real = Home(trained_once.home("credit")).json("frame")["names"]
    assert sorted(names) == sorted(real)
    bits = [names.index(name) for name in groups["shop", "payment"]]
    assert len(bits) == 4
    rng = np.random.RandomState(0)
    matrix = rng.randint(0, 2, size=(400, len(names))).astype(float)
    label = matrix[:, bits] @ (1.0, -1.0, 2.0, -2.0) + matrix[:, 0] + rng.normal(size=400)
    frame = Frame(names, matrix, (), ())
    text = train(frame, label, Parameters("regression", 0, 20, 0.3, 3, 0, 1))
    found = importance_of(federation, text, frame)
    parts = contributions(text, matrix)[:, 0]
    for line in found.lines:
        columns = [names.index(name) for name in groups[line.party, line.feature]]
        assert line.value == pytest.approx(np.abs(parts[:, columns].sum(axis=1)).mean())
    first = found.lines[0]
    assert (first.party, first.feature) == ("shop", "payment")
    assert first.value < 0.9 * np.abs(parts[:, bits]).sum(axis=1).mean()
    values = [line.value for line in found.lines]
    assert values == sorted(values, reverse=True)
    gains = load_booster(text).feature_importance("gain")
    assert first.gain == pytest.approx(gains[bits].sum())


def test_multiclass_is_the_mean_over_classes(trained_once: Workspace) -> None:
    federation = trained_once.declared
    names = tuple(itertools.chain(*columns_by_feature(federation).values()))
    rng = np.random.RandomState(0)
    matrix = rng.normal(size=(200, len(names)))
    label = np.searchsorted((-0.5, 0.5), matrix[:, 0]) * 1.0
    frame = Frame(names, matrix, (), ())
    text = train(frame, label, Parameters("multiclass", 3, 2, 0.3, 2, 0, 1))
    first = importance_of(federation, text, frame).lines[0]
    assert f"{first.party}.{first.feature}" == names[0]
    parts = contributions(text, matrix)
    assert parts.shape == (200, 3, len(names))
    assert first.value == pytest.approx(np.abs(parts[:, :, 0]).mean())


def test_many_rows_are_thinned_out_evenly(
    trained_once: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    home, federation = Home(trained_once.home("credit")), trained_once.declared
    text = home.read("model.txt").decode()
    frame = frame_of(home.table("holdout_frame"), home.json("frame"))
    rows = len(frame.matrix)
    monkeypatch.setattr(importance, "_MAX_ROWS", rows // 2)
    thin = importance_of(federation, text, frame)
    chosen = [i * rows // (rows // 2) for i in range(rows // 2)]
    half = Frame(frame.names, frame.matrix[chosen], frame.categorical, frame.ranked)
    assert thin.rows == rows // 2
    assert thin == importance_of(federation, text, half)
    # Of the rows that it stands on alone, it is the same.
    assert thin == importance_of(federation, text, frame.rows(rows_for(federation, text, rows)))


@pytest.mark.parametrize(
    ("trees", "depth", "splits", "rows"),
    [
        (80, 3, 80 * 7, 2_003),
        (200, 4, 200 * 15, 300),
        (2_000, 3, 14_000, 300),
        (2_000, 8, 284_656, 50),
        (10_000, 16, 10_000_000, 32),
        (1, 1, 0, 10_000),
    ],
)
def test_rows_follow_from_the_model_alone(trees: int, depth: int, splits: int, rows: int) -> None:
    assert importance.row_cap(LightGBMTraining(trees=trees, depth=depth), splits) == rows


def test_a_model_without_splits_goes_by_nothing(trained_once: Workspace) -> None:
    federation = trained_once.declared
    names = tuple(itertools.chain(*columns_by_feature(federation).values()))
    frame = Frame(names, np.ones((30, len(names))), (), ())
    text = train(frame, np.arange(30.0) % 2, Parameters("binary", 2, 2, 0.1, 2, 0, 1))
    found = importance_of(federation, text, frame)
    assert {(line.value, line.share, line.gain) for line in found.lines} == {(0, 0, 0)}
