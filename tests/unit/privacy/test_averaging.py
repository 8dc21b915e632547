"""Averaging over releases and linking two receivers: known by hand, and at their ends."""

import numpy as np
import pytest

from opboost_ops.mechanisms import (
    GlobalMap,
    LocalMap,
    Mechanism,
)
from opboost_ops.mechanisms.channel import Channel
from opboost_ops.privacy import attacks, averaging
from opboost_ops.privacy.attacks import Attack
from tests.unit.privacy.test_attacks import (
    OTHER_SECRET,
    SECRET,
    SURE,
    TEN,
    THOUSAND,
    TWO,
    VALUES,
    hand_channel,
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
    draws = released(mechanism)[None, :]
    assert averaging.averaging(VALUES, channel, draws, 2).success == 1.0


def test_seven_fresh_releases_place_all_and_pinned_ones_no_more_than_one() -> None:
    """Global-map, epsilon 0.08, 1000 values, 5 %: pins are what protects a retraining."""
    values = np.linspace(1, 1000, 1000).round().astype(np.int64)
    curves = averaging.fresh_and_pinned(values, GlobalMap(epsilon=0.08), THOUSAND, 10)
    assert len(curves.pinned) == len(curves.fresh) == 10
    assert curves.fresh[6].success > 0.99
    assert curves.fresh[0].success < 0.95
    assert curves.pinned[9].successes == curves.pinned[0].successes
    # The pinned release is a draw like the first fresh one.
    assert curves.pinned[0].low < curves.fresh[0].high
    assert curves.fresh[0].low < curves.pinned[0].high
    assert "10 releases, 1 of them different" in curves.pinned[9].about
    assert "10 releases, 10 of them different" in curves.fresh[9].about


# Linking


def linked(
    mechanism: Mechanism, columns: int, n: int = 400, second: bytes = OTHER_SECRET
) -> Attack:
    channel = mechanism.channel(TEN)
    values = [np.arange(n, dtype=np.int64) // 10**c % 10 + 1 for c in range(columns)]
    sides = [
        [released(mechanism, v, secret=secret, column=c) for c, v in enumerate(values)]
        for secret in (SECRET, second)
    ]
    priors = [attacks.marginal_of(v, channel) for v in values]
    return averaging.link(*sides, [channel] * columns, [channel] * columns, priors)


def test_linking_clear_rows() -> None:
    """Digits of the row's number: three tell all of 400 rows apart, one leaves ties of forty."""
    assert linked(SURE, 3).success == 1.0
    assert linked(SURE, 1).success == pytest.approx(1 / 40)
    assert linked(SURE, 3).baseline == 1 / 400
    assert linked(SURE, 3).trials == 200


@pytest.mark.parametrize("channel", [TWO, hand_channel((0.5625, 0.4375), (0.4375, 0.5625))])
def test_linking_by_hand_on_two_values(channel: Channel) -> None:
    """Persons released as 0, 0, 1 and 0, 1, 1: equal is likelier than unequal, if but a little."""
    first, second = [np.array([0, 0, 1])], [np.array([0, 1, 1])]
    attack = averaging.link(first, second, [channel], [channel], [np.array([0.5, 0.5])])
    # Row 0 picks row 0; row 1 picks row 0, wrongly; row 2 picks one of 1 and 2.
    assert (attack.successes, attack.trials) == (1 + 0 + 0.5, 3)
