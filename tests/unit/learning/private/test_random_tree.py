"""Random splits: nothing is spent on them, and what leaves tell is covered by noise."""

from dataclasses import replace
from fractions import Fraction
from functools import partial

import numpy as np
import pytest

from opboost_ops.learning.boosters import trainer as boosters
from opboost_ops.learning.private import noise, noisy_leaves, sensitivity, trainer
from opboost_ops.learning.private.sensitivity import GRADIENT_UNITS, LEAF_UNITS
from opboost_ops.learning.private.trainer import Trained
from tests.unit.learning.private.tables import bits, mixed, parameters
from tests.unit.learning.private.test_audit import Attack

random = partial(parameters, random=True)


def leaf(found: Trained) -> float:
    return found.trees[0].leaves[0] / LEAF_UNITS


#: One row alone in its leaf, or nobody. Of epsilon 2 sums have 1.5.
ALONE = Attack(
    rows=[],
    labels=[],
    new=[0],
    label=1.0,
    settings=random(2.0),
    event=lambda found: leaf(found) > 0.03,
    declared=2.0,
    models=600,
)


def test_a_training_spends_its_epsilon_on_leaves_and_all_rows_are_in_every_tree(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    frame, label = mixed(300, 1)
    asked: list[tuple[list[int], int, Fraction]] = []
    real = noise.laplace

    def laplace(values: list[int], change: int, epsilon: Fraction) -> list[int]:
        asked.append((list(values), change, epsilon))
        return real(values, change, epsilon)

    monkeypatch.setattr(noise, "laplace", laplace)
    settings = replace(random(0.7, 6), task="binary", classes=2, depth=3)
    found = trainer.fit(frame, label, settings)
    assert sensitivity.total_epsilon(found.events) == Fraction(7, 10)
    assert [event.depth for event in found.events] == [None] * 6
    assert sum((epsilon for *_, epsilon in asked), Fraction(0)) == Fraction(7, 10)
    sums, counts = asked[::2], asked[1::2]
    assert {change for _, change, _ in sums} == {GRADIENT_UNITS}
    assert {change for _, change, _ in counts} == {1}
    assert all(sum(values) == 300 for values, *_ in counts)


def test_one_row_moves_one_sum_by_a_gradient_and_one_count_by_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Whatever row it is: labels beyond their bounds, and scores that are far off."""
    rng = np.random.default_rng(0)
    frame, _ = mixed(200, 2)
    candidates = trainer.Candidates.of(frame.names, frame.thresholds, frame.categories)
    codes = candidates.codes(frame.matrix)
    gradients = rng.integers(-GRADIENT_UNITS, GRADIENT_UNITS + 1, 200)
    asked: list[list[int]] = []
    monkeypatch.setattr(noise, "laplace", lambda values, *_: asked.append(values) or values)
    monkeypatch.setattr(
        noise, "choose", lambda scores, _: np.arange(len(scores)) * 7 % scores.shape[1]
    )
    for rows in (np.arange(200), np.arange(199)):
        fewer = np.asfortranarray(codes[rows])
        noisy_leaves.grow(fewer, gradients[rows], candidates, Fraction(1), 3)
    sums, counts = (np.abs(np.subtract(asked[i], asked[i + 2])) for i in (0, 1))
    assert (sums > 0).sum() == 1
    assert sums.max() == abs(gradients[199]) <= GRADIENT_UNITS
    assert sorted(counts) == [0] * 7 + [1]


def test_the_model_learns_and_stock_lightgbm_reads_it() -> None:
    frame, _ = mixed(2_000, 4)
    label = (frame.matrix[:, 0] + frame.matrix[:, 1] > 10).astype(float)
    settings = random(4.0, 20, learning_rate=0.5, task="binary", classes=2, depth=4)
    text = boosters.train(frame, label, settings)
    found = boosters.predict(text, frame.matrix)
    # Half of the rows are of the larger class.
    assert ((found > 0.5) == (label == 1)).mean() > 0.85


def test_features_are_drawn_alike_however_many_candidates_they_have() -> None:
    frame, _ = mixed(10, 5)
    candidates = trainer.Candidates.of(frame.names, frame.thresholds, frame.categories)
    found = np.array(noisy_leaves.draw_splits(2_000, candidates))
    counts = np.bincount(candidates.feature[found], minlength=4)
    assert np.abs(counts - 500).max() < 120
    assert len(np.unique(found)) == len(candidates.feature)


def test_an_attack_shows_less_than_epsilon() -> None:
    assert 0.1 * ALONE.declared < ALONE.bound() < ALONE.declared


def test_sums_without_noise_are_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn = noise.laplace

    def laplace(values: list[int], change: int, epsilon: Fraction) -> list[int]:
        noisy = drawn(values, change, epsilon)
        return noisy if change == 1 else list(values)

    monkeypatch.setattr(noise, "laplace", laplace)
    attack = replace(ALONE, event=lambda found: leaf(found) > 0, models=300)
    assert attack.bound() > ALONE.declared


def test_gradients_are_clipped_and_no_row_sits_out(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[list[int]] = []
    monkeypatch.setattr(noise, "laplace", lambda values, *_: asked.append(values) or values)
    monkeypatch.setattr(trainer.sensitivity, "scale_labels", lambda label, _: np.asarray(label))
    trainer.fit(bits([[0], [0], [1]]), np.array([5.0, 0.5, -5.0]), random(1.0))
    assert asked == [[-GRADIENT_UNITS * 3 // 2, GRADIENT_UNITS], [2, 1]]
