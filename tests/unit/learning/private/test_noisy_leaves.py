"""Random splits with noisy leaves: what a whole model promises at a delta, and what it learns."""

import math
from dataclasses import replace
from fractions import Fraction
from itertools import product

import lightgbm
import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from scipy.optimize import brentq

from benchmarks.papers.lower_bounds import excess
from opboost_ops.errors import ContractError
from opboost_ops.learning.boosters import trainer as boosters
from opboost_ops.learning.boosters.backend import Parameters
from opboost_ops.learning.private import leaf_sums, noise, noisy_leaves, trainer
from opboost_ops.learning.private.sensitivity import GRADIENT_UNITS, LEAF_UNITS
from opboost_ops.learning.private.tree import Tree
from opboost_ops.privacy.ledger import renyi
from tests.unit.learning.private.tables import Lines, bits, candidates_of, mixed, parameters


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


def vectors(task: str, sums: leaf_sums.Sums) -> dict[str, list[np.ndarray]]:
    """By phase, what one row can add to the sums: all classes, far scores, two leaves."""
    labels = (0.0, 1.0) if task == "binary" else (-7.0, -1.0, -0.2, 1.0, 7.0)
    rows = product(labels, (-50.0, -0.5, 0.0, 0.5, 50.0), (0, 1))
    return {
        "facts": [leaf_sums.facts_of(np.array([label]), sums) for label in labels],
        "trees": [
            leaf_sums.leaf_sums(np.array([score]), np.array([label]), np.array([leaf]), 2, sums)
            for label, score, leaf in rows
        ],
        # A row is in one cell of each counted column, here of three columns with two cells.
        "lookup": [
            leaf_sums.COUNT_UNITS * np.eye(2, dtype=np.int64)[list(cells)].ravel()
            for cells in product((0, 1), repeat=3)
        ],
    }


def norms(changes: list[np.ndarray]) -> tuple[int, int]:
    """The greatest sum of absolute values, and of squares."""
    return (
        max(int(np.abs(change).sum()) for change in changes),
        max(int((change**2).sum()) for change in changes),
    )


@pytest.mark.parametrize("counted", [0, 3])
@pytest.mark.parametrize("task", ["binary", "regression"])
@pytest.mark.parametrize(("trees", "epsilon"), [(1, 1.0), (50, 0.3), (200, 8.0)])
def test_the_loss_is_that_of_one_party_s_noise_on_what_a_row_can_change(
    task: str, trees: int, epsilon: float, counted: int
) -> None:
    """Every row is added to none and replaced by every other one, and no sum is counted twice."""
    delta = 1e-6
    sums = leaf_sums.sums_of(task, trees, epsilon, delta, counted=counted)
    added, replaced = [], []
    for phase, rows in vectors(task, sums).items():
        if phase not in sums.noise.means:
            continue
        times, variance = (trees if phase == "trees" else 1), 2 * sums.noise.means[phase]
        for moves, curve in (
            (rows, added),
            ([one - other for one in rows for other in rows], replaced),
        ):
            curve.append(renyi.repeated(renyi.skellam(*norms(moves), variance), times))
    assert len(added) == (3 if counted else 2)
    exact = [renyi.RenyiCurve(values=renyi.composed(c), delta=delta) for c in (added, replaced)]
    assert sums.noise.curve.epsilon == exact[0].epsilon <= epsilon
    # A label of regression cannot change its hessian, which is counted all the same.
    assert exact[1].epsilon <= sums.noise.replaced.epsilon <= 1.02 * exact[1].epsilon
    if task == "binary":
        assert sums.noise.replaced.epsilon == exact[1].epsilon


@pytest.mark.parametrize("epsilon", [8.0, 0.3, 0.01])
def test_units_are_the_finest_whose_noise_is_drawn_from_a_small_table(epsilon: float) -> None:
    sums = leaf_sums.sums_of("binary", 200, epsilon, 1e-6)
    most = max(sums.noise.means.values())
    assert most <= 2**30 or sums.units == 8
    # Twice as fine units have four times the variance.
    assert sums.units == 4096 or 4 * most > 2**30


@example(score=30.0, label=1.0, task="binary")
@given(
    score=st.floats(-30, 30),
    label=st.sampled_from([0.0, 0.4, 1.0, -1.0]),
    task=st.sampled_from(["binary", "regression"]),
)
def test_sums_of_a_row_are_its_derivatives(score: float, label: float, task: str) -> None:
    if task == "binary":
        label = float(label > 0.5)
        chance = 1 / (1 + math.exp(-score))
        gradient, hessian, clip, greatest = chance - label, chance * (1 - chance), 0.5, 0.25
    else:
        gradient, hessian, clip, greatest = score - label, 1.0, 0.25, 1.0
    sums = replace(leaf_sums.sums_of(task, 1, 1.0, 1e-6), units=1024)
    found = leaf_sums.leaf_sums(np.array([score]), np.array([label]), np.array([1]), 2, sums)
    assert found[[0, 2]].tolist() == [0, 0]
    assert abs(found[1] - max(-1.0, min(1.0, gradient / clip)) * 1024) <= 0.501
    assert abs(found[3] - hessian / greatest * 256) <= 0.501


def test_only_a_training_with_delta_has_noise_of_sums() -> None:
    declared = settings(2.0, 1e-6, 5)
    assert declared.private is not None
    expected = leaf_sums.sums_of("binary", 5, 2.0, 1e-6).noise
    assert noisy_leaves.noise_of(declared) == expected
    for other in (
        replace(declared, private=None),
        replace(declared, private=replace(declared.private, delta=None)),
        replace(declared, task="multiclass", classes=3),
    ):
        assert noisy_leaves.noise_of(other) is None


def test_a_leaf_is_a_newton_step_that_shrinks_with_the_noise() -> None:
    sums = replace(leaf_sums.sums_of("binary", 1, 1.0, 1e-6), units=1024)
    # Units of gradients and hessians in the unit of scores; tau is half of .5 / .25.
    gradient, hessian, tau, spread = 0.5 / 1024, 0.25 / 256, 1.0, 5000.0
    for rows in (10**8, 20_000, 5000, 10):
        # A hessian below its noise counts as its noise.
        curvature = max(rows, spread) * hessian
        (leaf,) = leaf_sums.leaf_values(np.array([-0.3 * curvature / gradient, rows]), sums, spread)
        trust = curvature**2 / (curvature**2 + (spread * gradient / tau) ** 2)
        assert leaf / LEAF_UNITS == pytest.approx(0.3 * trust, rel=1e-4)
    (far,) = leaf_sums.leaf_values(np.array([-(10**12), 10**7]), sums, spread)
    assert far / LEAF_UNITS == pytest.approx(4 * tau)


def test_a_leaf_of_pure_epsilon_is_a_mean_that_shrinks_with_the_noise() -> None:
    spend = Fraction(2)
    # Three quarters of epsilon are for sums; a mean of .3 counts as signal.
    noise_to_signal = 2 / (2 * 0.75) ** 2 / 0.3**2
    for rows in (1000, 3, 1, -5):
        # A noisy count below one counts as one.
        weight = max(rows, 1)
        sums = [round(-0.2 * weight * GRADIENT_UNITS)]
        (leaf,) = noisy_leaves.noisy_leaf_values(sums, [rows], spend)
        trust = weight**2 / (weight**2 + noise_to_signal)
        assert leaf / LEAF_UNITS == pytest.approx(0.2 * trust, rel=2e-3)
    assert noisy_leaves.noisy_leaf_values([-(10**9)], [10], spend) == (LEAF_UNITS,)


@pytest.mark.parametrize("task", ["binary", "regression"])
@pytest.mark.parametrize(("rows", "epsilon", "rate"), [(200, 0.3, 0.1), (30, 1.0, 0.5)])
def test_the_error_of_noise_alone_is_that_of_models_without_a_signal(
    task: str, rows: int, epsilon: float, rate: float
) -> None:
    """Their true score is 0."""
    frame = bits(np.arange(rows).reshape(-1, 1) % 2)
    candidates = candidates_of(frame)
    codes = candidates.codes(frame.matrix)
    target = np.arange(rows) // 2 % 2 if task == "binary" else np.zeros(rows)
    declared = settings(epsilon, 1e-4, 20, task=task, depth=1, learning_rate=rate)
    squares = []
    # Few models have most of the error.
    for _ in range(400):
        trees, score = noisy_leaves.fit(codes, target.astype(float), candidates, declared)
        for tree in trees:
            score = score + rate * tree.values(codes, candidates)
        squares.append(np.mean(np.square(score)))
    estimate = leaf_sums.noise_error(rows, leaf_sums.sums_of(task, 20, epsilon, 1e-4), rate)
    assert estimate is not None
    assert estimate == pytest.approx(math.sqrt(np.mean(squares)), rel=0.4)


@pytest.mark.parametrize("task", ["binary", "regression"])
def test_the_error_of_the_initial_score_is_that_of_its_noise(task: str) -> None:
    """A tree that hardly learns leaves the initial score, whose true value is 0."""
    rows, sums = 480, leaf_sums.sums_of(task, 1, 0.3, 1e-4)
    label = np.arange(rows) % 2 if task == "binary" else np.zeros(rows)
    facts = leaf_sums.facts_of(label, sums)
    scores = [
        leaf_sums.initial_of(facts + noise.skellam(2, sums.noise.means["facts"]), task, sums.units)
        for _ in range(40_000)
    ]
    error = math.sqrt(np.mean([score**2 for _, score in scores]))
    assert leaf_sums.noise_error(rows, sums, 1e-6) == pytest.approx(error, rel=0.2)


def test_the_estimated_error_falls_with_rows_and_epsilon() -> None:
    sums = leaf_sums.sums_of("binary", 50, 0.3, 1e-6)
    estimates = [leaf_sums.noise_error(rows, sums, 0.1) for rows in (50, 200, 400, 10**5)]
    assert estimates[3] is None
    assert estimates[0] > estimates[1] > estimates[2] > 0
    more = leaf_sums.sums_of("binary", 50, 0.4, 1e-6)
    assert leaf_sums.noise_error(200, more, 0.1) < estimates[1]


def test_progress_is_reported_after_every_new_tree() -> None:
    frame, label = mixed(100, 3)
    declared, memory, seen = settings(2.0, 1e-6, 5, depth=2), Lines([]), []
    trainer.fit(frame, label, declared, memory, progress=lambda *tree: seen.append(tree))
    assert [done[-2:] for done in seen] == [(k, 5) for k in range(1, 6)]
    seen.clear()
    again = Lines(memory.kept[:4])
    trainer.fit(frame, label, declared, again, progress=lambda *tree: seen.append(tree))
    assert [done[-2:] for done in seen] == [(4, 5), (5, 5)]


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
