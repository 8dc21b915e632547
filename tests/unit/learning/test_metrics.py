"""Metrics of held-out rows, by hand."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from opboost_ops.learning.metrics import constant_prediction, evaluate


def test_regression_by_hand() -> None:
    assert list(evaluate("regression", np.ones(3), np.ones(3))) == ["mse"]
    found = evaluate("regression", np.array([1.0, 2.0, 3.0]), np.array([1.0, 2.0, 5.0]))
    assert found == {"mse": pytest.approx(4 / 3), "r2": pytest.approx(1 - 4 / 2)}


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 5)), min_size=2, max_size=40))
def test_auc_is_the_share_of_ordered_pairs(pairs: list[tuple[bool, int]]) -> None:
    label = np.array([p for p, _ in pairs])
    score = np.array([s / 5 for _, s in pairs])
    good, bad = score[label], score[~label]
    found = evaluate("binary", label.astype(int), score).get("auc")
    if len(good) == 0 or len(bad) == 0:
        assert found is None
    else:
        wins = [1.0 if a > b else 0.5 if a == b else 0.0 for a, b in itertools.product(good, bad)]
        assert found == pytest.approx(float(np.mean(wins)))


def test_multiclass_is_the_mean_of_one_against_the_rest() -> None:
    label = np.array([0, 1, 2, 2])
    score = np.array([[0.8, 0.1, 0.1], [0.6, 0.3, 0.1], [0.1, 0.2, 0.7], [0.1, 0.5, 0.4]])
    found = evaluate("multiclass", label, score)
    areas = [evaluate("binary", (label == c).astype(int), score[:, c])["auc"] for c in range(3)]
    assert found == {"accuracy": 0.5, "auc": pytest.approx(float(np.mean(areas)))}


def test_what_can_be_predicted_without_features() -> None:
    label = np.array([0.0, 1.0, 1.0, 1.0])
    assert constant_prediction("binary", 2, label, 2).tolist() == [0.75, 0.75]
    assert constant_prediction("multiclass", 3, label, 1).tolist() == [[0.25, 0.75, 0.0]]
    assert evaluate("binary", label, constant_prediction("binary", 2, label, 4))["auc"] == 0.5
