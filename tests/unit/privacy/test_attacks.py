"""Attacks on a release, each where the answer is known: by hand, exactly, or as a planted fact."""

import numpy as np
import pytest
from scipy.stats import binomtest

from opboost_ops.domain import Domain
from opboost_ops.errors import ContractError
from opboost_ops.mechanisms import (
    GlobalMap,
    Mechanism,
)
from opboost_ops.mechanisms.channel import TOTAL, Channel
from opboost_ops.mechanisms.noise import Words
from opboost_ops.mechanisms.release import randomise
from opboost_ops.privacy import attacks, averaging
from opboost_ops.privacy.attacks import correlated

SECRET = bytes(range(32))
OTHER_SECRET = SECRET[::-1]
TEN = Domain(1, 10)
THOUSAND = Domain(1, 1000)
#: Every value equally often, and no order of rows that follows the values.
VALUES = np.arange(4000, dtype=np.int64) * 7 % 10 + 1
SURE, BLIND = GlobalMap(epsilon=60.0), GlobalMap(epsilon=1e-9)


def released(
    mechanism: Mechanism,
    values: np.ndarray = VALUES,
    domain: Domain = TEN,
    secret: bytes = SECRET,
    column: int = 7,
) -> np.ndarray:
    return randomise(values, mechanism, domain, Words.seeded(secret, str(column)))


def hand_channel(*rows: tuple[float, ...]) -> Channel:
    """A channel on 0, 1, ... from probabilities that are whole in sixteenths."""
    counts = tuple(tuple(int(16 * p) * (TOTAL // 16) for p in row) for row in rows)
    return Channel(np.arange(len(rows)), np.arange(len(rows[0])), counts)


TWO = hand_channel((0.75, 0.25), (0.25, 0.75))


# The result


@pytest.mark.parametrize(
    ("successes", "trials"), [(0, 1), (1, 1), (0, 50), (50, 50), (3, 7), (1, 4000), (3960, 4000)]
)
def test_the_interval_is_wilsons(successes: int, trials: int) -> None:
    expected = binomtest(successes, trials).proportion_ci(0.95, method="wilson")
    assert attacks.wilson(successes, trials) == pytest.approx(tuple(expected), abs=1e-12)


@pytest.mark.parametrize(
    ("successes", "baseline", "verdict"),
    [
        (110, 0.1, "tells hardly more than the median"),  # its interval holds the baseline
        (50, 0.1, "tells hardly more than the median"),
        (200, 0.1, "tells clearly more than the median"),
        (520, 0.1, "tells clearly more than the median"),  # not surely one half
        (600, 0.1, "places most rows"),
        (990, 0.981, "tells hardly more than the median"),  # sure, but less than 1 in 100
        (8, 0.0001, "tells clearly more than the median"),  # so is this, but eightyfold
    ],
)
def test_verdicts(successes: int, baseline: float, verdict: str) -> None:
    attack = attacks.measured("any", successes, 1000, baseline, "rows")
    assert attack.verdict == verdict
    assert attack.gain == pytest.approx(successes / 1000 - baseline)


# Guess


def test_guess_by_hand_on_two_values() -> None:
    """p = (1/2, 1/2): the guess is y. p = (7/8, 1/8): 7/8 * 1/4 > 1/8 * 3/4, always 0."""
    values = np.array([0, 0, 1, 1, 0, 1, 0, 1])
    outputs = np.array([0, 1, 1, 1, 0, 0, 0, 1])
    even = attacks.guess(values, outputs, TWO, np.array([0.5, 0.5]), 0)
    assert (even.successes, even.trials, even.success, even.baseline) == (6, 8, 0.75, 0.5)
    skewed = attacks.guess(values, outputs, TWO, np.array([0.875, 0.125]), 0)
    assert (skewed.successes, skewed.gain) == (4, 0.0)


def test_guess_knows_all_and_nothing() -> None:
    for mechanism, success in [(SURE, 1.0), (BLIND, 0.1)]:
        channel = mechanism.channel(TEN)
        prior = attacks.marginal_of(VALUES, channel)
        attack = attacks.guess(VALUES, released(mechanism), channel, prior, 0)
        assert attack.baseline == 0.1
        assert attack.low <= success <= attack.high
    assert attacks.guess(VALUES, released(SURE), SURE.channel(TEN), prior, 0).success == 1.0
    assert attack.verdict == "tells hardly more than the median"


def test_the_baseline_is_the_lower_median() -> None:
    channel = SURE.channel(TEN)
    values = np.array([1, 1, 4, 9])  # half lies up to 1
    prior = attacks.marginal_of(values, channel)
    assert prior.tolist() == [0.5, 0, 0, 0.25, 0, 0, 0, 0, 0.25, 0]
    assert attacks.guess(values, values, channel, prior, 0).baseline == 0.5
    assert attacks.guess(values, values, channel, prior, 3).baseline == 0.75


# Rank matching


def test_rank_matching_on_the_identity() -> None:
    for scores in (VALUES, VALUES * 3 - 5):  # only order counts
        attack = attacks.rank_match(VALUES, scores, 0)
        assert (attack.success, attack.baseline) == (1.0, 0.1)


def test_rank_matching_shares_ties() -> None:
    """Ranks 0, 0, 0, 1, 1 lie on 1, 2, 3 and 4, 5: the guesses are 2, 2, 2, 4, 4."""
    values, ranks = np.array([5, 2, 3, 1, 4]), np.array([0, 0, 0, 1, 1])
    assert attacks.rank_match(values, ranks, 0).successes == 2
    assert attacks.rank_match(values, ranks, 1).successes == 3


def test_a_known_copy_tells_all_without_the_release() -> None:
    attack = correlated(VALUES, released(BLIND), VALUES * 2.5, BLIND.channel(TEN), 0)
    assert (attack.success, attack.baseline) == (1.0, 1.0)
    assert attack.verdict == "tells hardly more than the known column alone"


def test_half_known_by_the_column_half_by_the_release() -> None:
    """z tells the half; the release, within the half."""
    z = VALUES > 5
    sure = correlated(VALUES, released(SURE), z, SURE.channel(TEN), 0)
    assert (sure.success, sure.baseline) == (1.0, 0.2)
    blind = correlated(VALUES, released(BLIND), z, BLIND.channel(TEN), 0)
    assert blind.low <= 0.2 <= blind.high
    mechanism = GlobalMap(epsilon=1.0)
    channel, y = mechanism.channel(TEN), released(mechanism)
    plain = attacks.guess(VALUES, y, channel, attacks.marginal_of(VALUES, channel), 0)
    assert correlated(VALUES, y, z, channel, 0).low > plain.success


# Refusals


def test_refusals() -> None:
    channel = SURE.channel(TEN)
    flat, none = np.full(10, 0.1), np.array([], dtype=np.int64)
    for refused in (
        lambda: attacks.guess(none, none, channel, flat, 0),
        lambda: attacks.guess(VALUES, VALUES[1:], channel, flat, 0),
        lambda: attacks.guess(VALUES, VALUES + 1, channel, flat, 0),
        lambda: attacks.rank_match(none, none, 0),
        lambda: correlated(none, none, none, channel, 0),
        lambda: attacks.marginal_of(none, channel),
        lambda: attacks.marginal_of(VALUES - 1, channel),
        lambda: averaging.averaging(VALUES, channel, VALUES[None, 1:], 0),
        lambda: averaging.link([none], [none], [channel], [channel], [flat]),
    ):
        with pytest.raises(ContractError):
            refused()
