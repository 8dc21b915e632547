"""The triple on the noise of models: leaf noise and the choice of splits, as they are drawn.

Draws are fresh here, so verdicts are at p = 1e-20: a false alarm once in an age.
"""

from fractions import Fraction

import numpy as np
import pytest

from opboost_ops.learning.private import noise
from tests.statistical.test_triple import DRAWS, P, p_value

SCORES = (0, 700, 1000, -400, 1000)


def laplace_law(rate: float, reach: int) -> np.ndarray:
    """Discrete Laplace on -reach..reach, its tails in the last cells."""
    ratio = np.exp(-rate)
    law = (1 - ratio) / (1 + ratio) * ratio ** np.abs(np.arange(-reach, reach + 1))
    law[[0, -1]] = ratio**reach / (1 + ratio)
    return law


@pytest.mark.parametrize(("change", "epsilon"), [(1, 0.5), (10, 4.0)])
def test_leaf_noise(change: int, epsilon: float) -> None:
    draws = np.array(noise.laplace([7] * DRAWS, change, Fraction(str(epsilon)))) - 7
    reach = 5 * change
    counts = np.bincount(np.clip(draws, -reach, reach) + reach, minlength=2 * reach + 1)
    assert p_value(counts, laplace_law(epsilon / change, reach)) > P
    for factor in (0.7, 1.3):
        assert p_value(counts, laplace_law(factor * epsilon / change, reach)) < P


def choice_law(factor: float) -> np.ndarray:
    weights = np.exp(factor * np.array(SCORES))
    return weights / weights.sum()


def chosen(draws: int, factor: Fraction) -> np.ndarray:
    scores = np.tile(np.array(SCORES), (draws, 1))
    return np.bincount(noise.choose(scores, factor), minlength=len(SCORES))


@pytest.mark.parametrize("factor", [Fraction(1, 1000), Fraction(3, 1000)], ids=str)
def test_the_choice_of_splits(factor: Fraction) -> None:
    counts = chosen(DRAWS, factor)
    assert p_value(counts, choice_law(float(factor))) > P
    for wrong in (0.7, 1.3):
        assert p_value(counts, choice_law(wrong * float(factor))) < P


def test_choices_of_different_nodes_are_independent() -> None:
    scores = np.tile(np.array(SCORES), (DRAWS, 1))
    found = noise.choose(scores, Fraction(1, 1000))
    joint = np.bincount(found[::2] * len(SCORES) + found[1::2], minlength=len(SCORES) ** 2)
    law = choice_law(1e-3)
    assert p_value(joint, np.outer(law, law).ravel()) > P


def test_what_floating_point_cannot_tell_is_drawn_exactly(monkeypatch: pytest.MonkeyPatch) -> None:
    """With a hundredth of doubt instead of 2^-49 many draws go the long way; the law is the same.

    And where both ways can tell, they say the same.
    """
    asked: list[int] = []
    exactly = noise._choose_exactly

    def watched(below: list[int], factor: Fraction, word: int) -> int:
        asked.append(word)
        return exactly(below, factor, word)

    monkeypatch.setattr(noise, "_choose_exactly", watched)
    monkeypatch.setattr(noise, "_WEIGHT_ERROR", 0.01)
    counts = chosen(4000, Fraction(1, 1000))
    assert len(asked) > 500
    assert p_value(counts, choice_law(1e-3)) > 1e-9
    sums = np.cumsum(choice_law(1e-3))
    for word in range(2**60, 2**64, 2**60):
        below = [1000 - s for s in SCORES]
        assert exactly(below, Fraction(1, 1000), word) == (sums <= word / 2**64).sum()


def test_a_number_on_a_boundary_is_followed_further() -> None:
    """Two equal weights, and a word whose interval ends at one half: more bits decide."""
    assert noise._choose_exactly([0, 0], Fraction(1), 2**63 - 1) in (0, 1)
    assert noise._choose_exactly([0, 0], Fraction(1), 2**63 + 1) == 1
    assert noise._choose_exactly([0, 0], Fraction(1), 2**63 - 2) == 0
    # A candidate whose weight is e^-1000 is still a candidate.
    assert noise._choose_exactly([1000, 0], Fraction(1), 0) in (0, 1)
