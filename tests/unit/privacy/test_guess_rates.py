"""Guess rates of a release: under an even prior, and under the worst over two and three values."""

import itertools
import math

import numpy as np
import pytest

from opboost_ops.domain import Domain
from opboost_ops.mechanisms import (
    AdjMap,
    GeneralisedResponse,
    Geometric,
    LocalMap,
    Mechanism,
    MissingBit,
    Piecewise,
    UnaryEncoding,
)
from opboost_ops.mechanisms.channel import Channel
from opboost_ops.mechanisms.noise import Words
from opboost_ops.mechanisms.randomised_response import BIT
from opboost_ops.mechanisms.release import randomise
from opboost_ops.privacy import attacks
from opboost_ops.privacy.consent.guessing import Law, RecordGuess, guess_record, worst_values

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


def patterns(law: Law) -> np.ndarray:
    """Pr[all bits | category or missing], by definition."""
    bit, count = law.channel.probabilities(), law.categories or 0
    every = list(itertools.product((0, 1), repeat=count))
    rows = [
        [np.prod([bit[int(at == own), b] for at, b in enumerate(bits)]) for bits in every]
        for own in range(count)
    ]
    if law.missing is None:
        return np.array(rows)
    present, absent = law.missing.probabilities()
    states = [(row, present) for row in rows] + [(rows[law.fill], absent)]
    return np.array([np.outer(row, chances).ravel() for row, chances in states])


@pytest.mark.parametrize("missing", [None, MissingBit(epsilon=0.5).channel(BIT)])
@pytest.mark.parametrize("categories", [3, 5])
def test_a_category_is_guessed_from_all_of_its_bits(
    categories: int, missing: Channel | None
) -> None:
    count = categories + (missing is not None)
    prior = np.random.default_rng(4).dirichlet(np.ones(count))
    law = Law(UnaryEncoding(epsilon=2).channel(BIT), categories, tuple(prior), missing)
    rows, guess = patterns(law), law.guess(2.0)
    assert guess.before == pytest.approx(prior.max())
    assert guess.after == pytest.approx(success(rows, prior))
    for of, found in ((2, guess.of_two), (3, guess.of_three)):
        sets = itertools.combinations(range(count), of)
        best = max(success(rows[list(s)], np.full(of, 1 / of)) for s in sets)
        assert found == pytest.approx(best)


def test_three_values_that_are_equally_far_apart_are_found() -> None:
    """Another pair is farther apart, and no third value adds as much to it. All sums are exact."""
    law = np.zeros((5, 8))
    for row, outputs in enumerate(((0, 1, 2, 3), (4, 5, 6, 7), (0, 1), (2, 4), (5, 6))):
        law[row, outputs] = 1 / len(outputs)
    law[2:] = law[2:] * 15 / 16 + 1 / 128
    pair, three = worst_values(law)
    assert (set(pair), set(three)) == ({0, 1}, {2, 3, 4})


def test_a_release_that_tells_all_multiplies_the_odds_without_bound() -> None:
    guess = Law(LocalMap(epsilon=1, theta=1).channel(Domain(0, 1))).guess(math.inf)
    assert (guess.after, guess.gain) == (1.0, math.inf)


def record_of(epsilon: float, prior: tuple[float, ...] | None = None) -> RecordGuess:
    """Two values of ten, and one of five categories or missing."""
    number = Law(GeneralisedResponse(epsilon=epsilon).channel(TEN), prior=prior)
    missing = MissingBit(epsilon=epsilon).channel(BIT)
    category = Law(UnaryEncoding(epsilon=epsilon).channel(BIT), 5, missing=missing)
    laws = [number, number, category]
    return guess_record(laws, [law.guess(epsilon) for law in laws])


def first_among(better: float, equal: float, others: int = 999) -> float:
    """E[share of the first place], if each other is better, or equal, with these chances."""
    worse = 1 - better - equal
    return ((worse + equal) ** (others + 1) - worse ** (others + 1)) / ((others + 1) * equal)


def test_a_record_is_linked_as_often_as_its_equals_allow() -> None:
    certain = record_of(60)
    # Numbers and missing bit are certain; the bit of a category shows only every second time.
    missing, shown = first_among(0, 1 / 600), first_among(0, 1 / 1200)
    expected = missing / 6 + (shown + first_among(1 / 1200, 1 / 240)) * 5 / 12
    assert certain.first == pytest.approx(expected, abs=4 * certain.first_error)
    assert certain.nearest == pytest.approx(1, abs=0.01)
    useless = record_of(1e-6)
    assert useless.first == pytest.approx(1 / 1000, abs=1e-3)
    assert useless.nearest == pytest.approx(1 / 100, abs=5e-3)
    rare = record_of(60, (0.91, *[0.01] * 9))
    assert rare.first < 0.3
    assert rare.first_exposed > 0.75


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
