"""Scores made probabilities: right where they were fitted, and on rows that they did not see."""

import numpy as np
import pytest
from scipy.optimize import isotonic_regression

from opboost_ops.learning import calibration
from opboost_ops.learning.calibration import Method

METHODS: list[Method] = ["isotonic", "platt"]


def distorted(rows: int, seed: int = 1) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Labels, their true probabilities, and scores that are far too sure."""
    random = np.random.default_rng(seed)
    raw = random.normal(size=rows)
    truth = 1 / (1 + np.exp(-(0.7 * raw - 0.5)))
    label = (random.random(rows) < truth).astype(float)
    return label, truth, 1 / (1 + np.exp(-3 * raw))


def brier(label: np.ndarray, score: np.ndarray) -> float:
    return float(np.mean((label - score) ** 2))


@pytest.mark.parametrize("method", METHODS)
def test_probabilities_come_close_to_the_truth_on_other_rows(method: Method) -> None:
    label, _, score = distorted(4000)
    fitted = calibration.fit(method, label, score)
    other, truth, raw = distorted(4000, seed=2)
    found = calibration.apply(fitted, raw)
    assert np.abs(found - truth).mean() < 0.03
    assert np.abs(raw - truth).mean() > 0.15
    assert brier(other, found) < brier(other, raw) - 0.02
    # The order of two rows is never turned round.
    assert (np.diff(found[np.argsort(raw, kind="stable")]) >= 0).all()
    assert found.min() >= 0
    assert found.max() <= 1


@pytest.mark.parametrize("method", METHODS)
def test_a_figure_does_not_stand_on_the_rows_that_it_was_fitted_to(method: Method) -> None:
    """Of pure noise, isotonic regression learns by heart; other folds show that it did."""
    random = np.random.default_rng(3)
    label, score = (random.random(200) < 0.5).astype(float), random.random(200)
    inside = calibration.apply(calibration.fit(method, label, score), score)
    outside = calibration.out_of_fold(method, label, score)
    assert brier(label, inside) < 0.25
    assert brier(label, outside) > brier(label, inside)


@pytest.mark.parametrize("method", METHODS)
def test_figures_of_tied_scores_are_not_better_than_new_rows_would_show(method: Method) -> None:
    """The mean of 32 coins predicts another one with a Brier score of .25 (1 + 1 / 32)."""
    random, figures = np.random.default_rng(5), []
    for _ in range(200):
        label = (random.random(40) < 0.5).astype(float)
        score = np.full(40, 0.5)
        figures.append(brier(label, calibration.out_of_fold(method, label, score)))
    assert np.mean(figures) > 0.25


def test_platts_two_numbers_are_those_that_made_the_labels() -> None:
    label, _, score = distorted(40_000)
    fitted = calibration.fit("platt", label, score)
    assert fitted["slope"] == pytest.approx(0.7 / 3, abs=0.02)
    assert fitted["intercept"] == pytest.approx(-0.5, abs=0.04)


@pytest.mark.parametrize("pair", [(0.0, 1.0), (0.3, 0.3 + 1e-9), (1e-9, 1.01e-9)])
def test_of_two_scores_platt_gives_the_mean_target_of_each(pair: tuple[float, float]) -> None:
    label = np.repeat([1.0, 0.0, 1.0, 0.0], [10, 30, 45, 15])
    target = np.where(label == 1, 56 / 57, 1 / 47)
    found = calibration.apply(
        calibration.fit("platt", label, np.repeat(pair, [40, 60])), np.array(pair)
    )
    assert found == pytest.approx([target[:40].mean(), target[40:].mean()], abs=1e-6)


def test_flat_pieces_are_kept_by_their_ends_alone() -> None:
    label, _, score = distorted(2000)
    fitted = calibration.fit("isotonic", label, score)
    assert len(fitted["scores"]) < 400
    order = np.argsort(score)
    expected = isotonic_regression(label[order]).x
    assert calibration.apply(fitted, score)[order] == pytest.approx(expected)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("label", [[1.0], [0.0, 0.0], [1.0, 1.0, 1.0]])
def test_few_rows_and_one_class_give_numbers_in_range(method: Method, label: list[float]) -> None:
    score = np.linspace(0, 1, len(label))
    found = calibration.apply(calibration.fit(method, np.array(label), score), score)
    honest = calibration.out_of_fold(method, np.array(label), score)
    for values in (found, honest):
        assert np.isfinite(values).all()
        assert ((values >= 0) & (values <= 1)).all()
