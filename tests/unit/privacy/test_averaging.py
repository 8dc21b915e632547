"""Averaging over releases and linking two receivers: known by hand, and at their ends."""

import numpy as np
import pytest

from opboost_ops.mechanisms import (
    GlobalMap,
    LocalMap,
    Mechanism,
)
from opboost_ops.mechanisms.channel import Channel
from opboost_ops.mechanisms.release import randomise
from opboost_ops.privacy import attacks, averaging
from opboost_ops.privacy.attacks import Attack
from tests.unit.privacy.test_attacks import (
    BLIND,
    COLUMN,
    KEYS,
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


def test_a_repeated_release_tells_nothing_new() -> None:
    mechanism = GlobalMap(epsilon=0.5)
    channel, values = mechanism.channel(TEN), np.minimum(VALUES, 6)
    once, again = released(mechanism, values), released(mechanism, values, secret=OTHER_SECRET)
    two = averaging.averaging(values, channel, np.stack([once, again]), 0)
    four = averaging.averaging(values, channel, np.stack([once, once, again, once]), 0)
    assert four.successes == two.successes
    assert two.success > averaging.averaging(values, channel, once[None, :], 0).success


def test_rows_are_worked_on_in_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    mechanism = GlobalMap(epsilon=0.5)
    draws = np.stack([released(mechanism, secret=s) for s in (SECRET, OTHER_SECRET)])
    whole = averaging.averaging(VALUES, mechanism.channel(TEN), draws, 0)
    monkeypatch.setattr(averaging, "_CELLS", 70)
    assert averaging.averaging(VALUES, mechanism.channel(TEN), draws, 0) == whole


def test_structural_zeros_are_used() -> None:
    """Local-map never leaves its part: the parts are known after one draw."""
    mechanism = LocalMap(epsilon=1e-6, theta=5)
    channel = mechanism.channel(TEN)
    draws = randomise(VALUES, KEYS, mechanism, TEN, b"map", SECRET, COLUMN)[None, :]
    assert averaging.averaging(VALUES, channel, draws, 2).success == 1.0


def test_seven_fresh_releases_place_all_and_keyed_ones_no_more_than_one() -> None:
    """Global-map, epsilon 0.08, 1000 values, 5 %: keying is what protects a retraining."""
    values = np.linspace(1, 1000, 4000).round().astype(np.int64)
    curves = averaging.fresh_and_keyed(
        values, KEYS, GlobalMap(epsilon=0.08), THOUSAND, b"map", SECRET, COLUMN, 30
    )
    assert len(curves.keyed) == len(curves.fresh) == 30
    assert curves.fresh[6].success > 0.99
    assert curves.fresh[0].success < 0.95
    assert curves.keyed[29].successes == curves.keyed[0].successes
    # The keyed release is a draw like the first fresh one.
    assert curves.keyed[0].low < curves.fresh[0].high
    assert curves.fresh[0].low < curves.keyed[0].high
    assert "30 releases, 1 of them different" in curves.keyed[29].about
    assert "30 releases, 30 of them different" in curves.fresh[29].about


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


def test_linking_without_knowledge_is_a_random_pick() -> None:
    attack = linked(BLIND, 3)
    assert attack.low <= attack.baseline <= attack.high
    assert attack.verdict == "tells hardly more than a random pick"


def test_linking_improves_with_epsilon() -> None:
    weak, strong = linked(GlobalMap(epsilon=1.0), 3), linked(GlobalMap(epsilon=6.0), 3)
    assert weak.baseline < weak.success < strong.success < 1


@pytest.mark.parametrize("channel", [TWO, hand_channel((0.5625, 0.4375), (0.4375, 0.5625))])
def test_linking_by_hand_on_two_values(channel: Channel) -> None:
    """Persons released as 0, 0, 1 and 0, 1, 1: equal is likelier than unequal, if but a little."""
    first, second = [np.array([0, 0, 1])], [np.array([0, 1, 1])]
    attack = averaging.link(first, second, [channel], [channel], [np.array([0.5, 0.5])])
    # Row 0 picks row 0; row 1 picks row 0, wrongly; row 2 picks one of 1 and 2.
    assert (attack.successes, attack.trials) == (1 + 0 + 0.5, 3)


def test_a_rare_output_outweighs_a_frequent_one() -> None:
    """The score is a likelihood ratio: what both receivers see of all rows tells nothing."""
    # The output 0 is frequent, and fits both values; the rare output 1 proves the value 1.
    lean = hand_channel((1.0, 0.0), (0.5, 0.5))
    prior = np.array([0.5, 0.5])
    first, second = [np.array([1, 0])], [np.array([0, 1])]
    # Row 0 was released as 1, so it is a 1, and the other's output 1 fits it best: wrong.
    attack = averaging.link(first, second, [lean], [lean], [prior])
    assert attack.successes == 0


def test_one_secret_links_equal_patterns() -> None:
    columns = [np.array([1, 1, 2, 2]), np.array([5, 5, 5, 6])]
    attack = averaging.link_same_secret(columns)
    # Two rows share a pattern, two stand alone: 1/2 + 1/2 + 1 + 1.
    assert (attack.successes, attack.success, attack.baseline) == (3, 0.75, 0.25)


def test_one_secret_is_worse_than_two() -> None:
    mechanism = GlobalMap(epsilon=1.0)
    values = [np.arange(400, dtype=np.int64) // 10**c % 10 + 1 for c in range(3)]
    columns = [released(mechanism, v, column=c) for c, v in enumerate(values)]
    assert averaging.link_same_secret(columns).low > linked(mechanism, 3).high


# A correlated column
