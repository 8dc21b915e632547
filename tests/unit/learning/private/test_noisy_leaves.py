"""Random splits with noisy leaves: what a whole model promises at a delta, and what it learns."""

import math
from dataclasses import replace

import lightgbm
import numpy as np
import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from scipy.optimize import brentq

from benchmarks.papers.lower_bounds import excess
from opboost_ops.errors import ContractError
from opboost_ops.learning.boosters import trainer as boosters
from opboost_ops.learning.boosters.backend import Parameters
from opboost_ops.learning.private import leaf_sums, noisy_leaves, trainer
from opboost_ops.learning.private.sensitivity import LEAF_UNITS
from opboost_ops.learning.private.tree import Tree
from tests.unit.learning.private.tables import Lines, candidates_of, mixed, parameters


def settings(epsilon: float, delta: float, trees: int, **more: object) -> Parameters:
    of = {"task": "binary", "classes": 2, "depth": 6, **more}
    return parameters(epsilon, trees, random=True, delta=delta, **of)


# Calibration takes a tenth of a second, more on a busy machine.
@hypothesis_settings(max_examples=25, deadline=None)
@given(
    epsilon=st.floats(0.05, 8),
    exponent=st.integers(4, 9),
    trees=st.sampled_from([1, 20, 200]),
    task=st.sampled_from(["binary", "regression"]),
)
def test_a_model_spends_its_epsilon_and_hardly_less(
    epsilon: float, exponent: int, trees: int, task: str
) -> None:
    delta = 10.0**-exponent
    found = leaf_sums.sums_of(task, trees, epsilon, delta)
    assert 0.999 * epsilon <= found.noise.curve.epsilon <= epsilon


@pytest.mark.parametrize("epsilon", [0.01, 0.25, 1.0, 4.0])
def test_the_noise_is_hardly_more_than_the_gaussian_mechanism_needs(epsilon: float) -> None:
    """Against the exact law of the Gaussian mechanism (Balle and Wang, 2018)."""
    delta, trees = 1e-6, 200
    found = leaf_sums.sums_of("binary", trees, epsilon, delta)
    hessians = found.units // 4
    square = (
        trees * (found.units**2 + hessians**2) / found.noise.deviation("trees", 1) ** 2
        + found.units**2 / found.noise.deviation("facts", 1) ** 2
    )

    exact = brentq(lambda mu: excess(mu, epsilon, delta), 1e-3, 10)
    # A small epsilon takes high orders, of which few are kept.
    assert (0.85 if epsilon < 0.1 else 0.9) * exact < math.sqrt(square) <= exact


@given(seed=st.integers(0, 2**32), depth=st.integers(1, 6))
def test_leaves_are_those_that_rows_fall_into(seed: int, depth: int) -> None:
    frame, _ = mixed(50, seed)
    candidates = candidates_of(frame)
    codes = candidates.codes(frame.matrix)
    splits = noisy_leaves.draw_splits(2**depth - 1, candidates)
    tree = Tree(tuple(splits), tuple(i * LEAF_UNITS for i in range(2**depth)))
    found = leaf_sums.leaf_of(splits, codes, candidates)
    assert found.tolist() == tree.values(codes, candidates).astype(int).tolist()


@given(
    seed=st.integers(0, 2**32),
    task=st.sampled_from(["binary", "regression"]),
    far=st.sampled_from([-50.0, 0.0, 0.3, 50.0]),
)
def test_one_row_moves_one_leaf_by_a_clipped_gradient_and_hessian(
    seed: int, task: str, far: float
) -> None:
    rng = np.random.default_rng(seed)
    score, place = rng.normal(size=30), rng.integers(0, 4, 30)
    score[-1] = far
    target = rng.integers(0, 2, 30) if task == "binary" else rng.uniform(-1, 1, 30)
    sums = replace(leaf_sums.sums_of(task, 1, 1.0, 1e-6), units=256)
    whole, fewer = (
        leaf_sums.leaf_sums(score[:n], target[:n], place[:n], 4, sums) for n in (30, 29)
    )
    moved = whole - fewer
    assert set(np.flatnonzero(moved) % 4) <= {place[-1]}
    assert np.abs(moved[:4]).max() <= 256
    assert 0 <= moved[4:].min() <= moved[4:].max() <= 64


def test_a_retry_goes_on_and_another_training_does_not() -> None:
    frame, label = mixed(100, 3)
    declared = settings(2.0, 1e-6, 5, depth=2)
    memory = Lines([])
    whole = trainer.fit(frame, label, declared, memory)
    assert trainer.fit(frame, label, declared, Lines(list(memory.kept))).trees == whole.trees
    partly = trainer.fit(frame, label, declared, Lines(memory.kept[:3]))
    assert partly.trees[:2] == whole.trees[:2]
    assert partly.initial == whole.initial
    with pytest.raises(ContractError, match="another frame"):
        trainer.fit(frame, label, replace(declared, depth=1), Lines(list(memory.kept)))
    # Another delta is another noise.
    with pytest.raises(ContractError, match="another frame"):
        trainer.fit(frame, label, settings(2.0, 1e-5, 5, depth=2), Lines(list(memory.kept)))


@pytest.mark.parametrize("task", ["binary", "regression"])
def test_stock_lightgbm_predicts_what_was_trained(task: str) -> None:
    frame, _ = mixed(3_000, 4)
    hidden = frame.matrix[:, 0] + 3 * (frame.matrix[:, 2] == 3)
    label = (hidden > 5).astype(float) if task == "binary" else hidden / 15
    declared = settings(4.0, 1e-6, 100, task=task, learning_rate=0.2)
    text = boosters.train(frame, label, declared)
    found = lightgbm.Booster(model_str=text).predict(frame.matrix)
    if task == "binary":
        assert ((found > 0.5) == (label == 1)).mean() > 0.93
        # Calibrated, as log loss is: DPBoost's own squared loss is not.
        assert abs(found.mean() - label.mean()) < 0.03
    else:
        assert np.mean((found - label) ** 2) < 0.1 * np.var(label)


def test_trees_of_a_small_table_are_shallow() -> None:
    depths = []
    for rows in (100, 3_000, 100_000):
        sums = leaf_sums.sums_of("binary", 200, 0.5, 1e-6)
        depths.append(leaf_sums.depth_of(rows, sums, 6))
    assert depths == sorted(depths)
    assert depths[0] == 1
    assert depths[-1] == 6


def test_a_delta_of_one_in_the_number_of_rows_is_refused() -> None:
    frame, label = mixed(200, 5)
    with pytest.raises(ContractError, match="not below 1 / 200 rows"):
        trainer.fit(frame, label, settings(2.0, 1 / 200, 5))
    assert trainer.fit(frame, label, settings(2.0, 0.99 / 200, 5)).trees
