"""Averaging over releases: known by hand, and at its ends."""

import numpy as np

from benchmarks.papers import averaging
from opboost_ops.mechanisms import (
    GlobalMap,
    LocalMap,
)
from opboost_ops.mechanisms.release import randomise
from opboost_ops.privacy import attacks
from tests.unit.privacy.test_attacks import (
    COLUMN,
    KEYS,
    SECRET,
    TEN,
    THOUSAND,
    TWO,
    VALUES,
    released,
)


def test_averaging_by_hand_on_two_values() -> None:
    """Three draws of three quarters each: the majority, unless the prior outweighs it."""
    values = np.array([0, 1, 1, 1, 1])
    draws = np.array([[0, 1, 0, 1, 1], [0, 1, 1, 1, 0], [1, 1, 1, 0, 0]])
    flat = averaging.averaging(values, TWO, draws, 0, np.array([0.5, 0.5]))
    assert (flat.successes, flat.trials) == (4, 5)  # all but the last, released as 1, 0, 0
    # Odds of 15 : 1 for 0 beforehand: of 27 : 1 or 3 : 1 for 1, only three ones outweigh them.
    assert averaging.averaging(values, TWO, draws, 0, np.array([0.9375, 0.0625])).successes == 2


def test_one_release_averaged_is_guessed() -> None:
    mechanism = GlobalMap(epsilon=0.5)
    channel, values = mechanism.channel(TEN), np.minimum(VALUES, 6)
    prior = attacks.marginal_of(values, channel)
    once = released(mechanism, values)
    for tolerance in (0, 1, 3):
        one = attacks.guess(values, once, channel, prior, tolerance)
        other = averaging.averaging(values, channel, once[None, :], tolerance)
        assert (other.successes, other.baseline) == (one.successes, one.baseline)


def test_structural_zeros_are_used() -> None:
    """Local-map never leaves its part: the parts are known after one draw."""
    mechanism = LocalMap(epsilon=1e-6, theta=5)
    channel = mechanism.channel(TEN)
    draws = randomise(VALUES, KEYS, mechanism, TEN, b"map", SECRET, COLUMN)[None, :]
    assert averaging.averaging(VALUES, channel, draws, 2).success == 1.0


def test_seven_fresh_releases_place_all_and_keyed_ones_no_more_than_one() -> None:
    """Global-map, epsilon 0.08, 1000 values, 5 %: keying is what protects a retraining."""
    values = np.linspace(1, 1000, 1000).round().astype(np.int64)
    curves = averaging.fresh_and_keyed(
        values, KEYS[:1000], GlobalMap(epsilon=0.08), THOUSAND, b"map", SECRET, COLUMN, 10
    )
    assert len(curves.keyed) == len(curves.fresh) == 10
    assert curves.fresh[6].success > 0.99
    assert curves.fresh[0].success < 0.95
    assert curves.keyed[9].successes == curves.keyed[0].successes
    # The keyed release is a draw like the first fresh one.
    assert curves.keyed[0].low < curves.fresh[0].high
    assert curves.fresh[0].low < curves.keyed[0].high
    assert "10 releases, 1 of them different" in curves.keyed[9].about
    assert "10 releases, 10 of them different" in curves.fresh[9].about
