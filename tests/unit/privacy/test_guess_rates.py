"""Guess rates of a release: under an even prior, and under the worst over two and three values."""

import itertools

import numpy as np
import pytest

from opboost_ops.domain import Domain
from opboost_ops.mechanisms import (
    AdjMap,
    GeneralisedResponse,
    Geometric,
    Mechanism,
    MissingBit,
    Piecewise,
    UnaryEncoding,
)
from opboost_ops.mechanisms.noise import Words
from opboost_ops.mechanisms.randomised_response import BIT
from opboost_ops.mechanisms.release import randomise
from opboost_ops.privacy import attacks
from opboost_ops.privacy.consent.guessing import Law, worst_values

TEN = Domain(1, 10)


def success(law: np.ndarray, prior: np.ndarray) -> float:
    return float((prior[:, None] * law).max(axis=0).sum())


@pytest.mark.parametrize(
    "mechanism",
    [
        AdjMap(epsilon=1, theta=4, alpha=10),
        GeneralisedResponse(epsilon=4.5),
        Geometric(epsilon=0.5),
        Piecewise(epsilon=4.5),
    ],
)
def test_no_prior_over_two_or_three_values_gains_more(mechanism: Mechanism) -> None:
    law = mechanism.channel(TEN).probabilities()
    guess = Law(mechanism.channel(TEN)).guess(1.0)
    random = np.random.default_rng(1)
    assert guess.of_three is not None
    for of, found in ((2, guess.of_two), (3, guess.of_three)):
        sets = list(itertools.combinations(range(10), of))
        even = np.full(of, 1 / of)
        assert found == pytest.approx(max(success(law[list(s)], even) for s in sets), abs=1e-12)
        most = max(guess.of_two - 1 / 2, found - 1 / of)
        for prior in random.dirichlet(np.ones(of), 200):
            some = law[random.choice(10, of, replace=False)]
            assert success(some, prior) - prior.max() <= most + 1e-12


def test_any_channel_s_worst_values_are_found() -> None:
    random = np.random.default_rng(2)
    for _ in range(100):
        law = random.dirichlet(np.full(random.integers(2, 9), 0.4), random.integers(2, 12))
        for values in worst_values(law):
            sets = itertools.combinations(range(len(law)), len(values))
            best = max(law[list(s)].max(axis=0).sum() for s in sets)
            assert law[list(values)].max(axis=0).sum() == pytest.approx(best, abs=1e-12)


def test_categories_and_missing_bits_are_guessed_together() -> None:
    bits = UnaryEncoding(epsilon=1).channel(BIT)
    stay = float(np.exp(1) / (1 + np.exp(1)))
    five = Law(bits, 5).guess(1.0)
    # Two bits tell two categories apart, whatever the others are: by hand.
    p, q = bits.probabilities()[1, 1], bits.probabilities()[0, 1]
    assert five.of_two == pytest.approx((1 + p - q) / 2)
    missing = Law(bits, 5, missing=MissingBit(epsilon=1).channel(BIT)).guess(2.0)
    assert missing.of_two == pytest.approx(stay), "no bits say more than whether it is missing"


def test_the_sheet_s_figure_of_two_values_is_what_the_attack_finds() -> None:
    """A column of ten cells whose people have two of them, as `leakage` attacks it."""
    channel = GeneralisedResponse(epsilon=2).channel(TEN)
    values = np.repeat([1, 10], 20_000)
    released = randomise(values, GeneralisedResponse(epsilon=2), TEN, Words.seeded(b"a" * 32, "x"))
    attack = attacks.guess(values, released, channel, attacks.marginal_of(values, channel), 0)
    assert attack.low <= Law(channel).guess(2.0).of_two <= attack.high


def test_of_two_values_there_are_no_three() -> None:
    guess = Law(Geometric(epsilon=0.7).channel(Domain(0, 1))).guess(0.7)
    assert guess.of_three is None
    assert guess.of_two == guess.after
