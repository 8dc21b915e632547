"""Linking two receivers' rows: known by hand, and at its ends."""

import numpy as np
import pytest

from opboost_ops.mechanisms import Mechanism
from opboost_ops.mechanisms.channel import Channel
from opboost_ops.privacy import attacks
from opboost_ops.privacy.attacks import Attack
from opboost_ops.privacy.linking import link
from tests.unit.privacy.test_attacks import (
    OTHER_SECRET,
    SECRET,
    SURE,
    TEN,
    TWO,
    hand_channel,
    released,
)


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
    return link(*sides, [channel] * columns, [channel] * columns, priors)


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
    attack = link(first, second, [channel], [channel], [np.array([0.5, 0.5])])
    # Row 0 picks row 0; row 1 picks row 0, wrongly; row 2 picks one of 1 and 2.
    assert (attack.successes, attack.trials) == (1 + 0 + 0.5, 3)
