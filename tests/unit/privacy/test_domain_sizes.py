"""Sizes of a domain are compared at one loss between raw values."""

import numpy as np
import pytest

from opboost_ops.privacy.domain_sizes import compare
from opboost_ops.privacy.planner import Caps

BOUNDS = (0.0, 900.0)


def test_near_values_cost_the_same_on_every_domain() -> None:
    found = compare(BOUNDS, 100.0, Caps(step=1.0), (10, 28, 91))
    assert [line.steps_near for line in found] == [1, 3, 10]
    assert [line.step for line in found] == pytest.approx([100.0, 900 / 27, 10.0])
    for line in found:
        assert 0.999 <= line.loss_near <= 1.0
        assert line.loss_1 == pytest.approx(1.0 / line.steps_near, rel=1e-4)
        # Nine times as far costs nine times as much, however many steps that is.
        assert line.loss_whole == pytest.approx(9.0, rel=1e-3)
    # So a larger domain buys nothing: what it seems to buy at one epsilon is loss.
    assert [line.error for line in found] == pytest.approx([found[0].error] * 3, rel=0.02)


def test_two_values_that_are_near_are_never_more_steps_apart() -> None:
    """Every pair of raw values at that distance, whatever its place."""
    for size, near in ((10, 100.0), (10, 101.0), (17, 33.0), (64, 1.0)):
        (line,) = compare(BOUNDS, near, Caps(step=1.0), (size,))
        low = np.linspace(0, 900 - near, 4001)
        step = 900 / (size - 1)
        apart = np.ceil((low + near) / step - 1e-9) - np.ceil(low / step - 1e-9)
        assert apart.max() <= line.steps_near


def test_a_cap_across_the_domain_holds_too() -> None:
    found = compare(BOUNDS, 100.0, Caps(step=1.0, whole=4.0), (4, 10, 28))
    assert all(line.loss_near <= 1.0 and line.loss_whole <= 4.0 for line in found)
    assert [line.mechanism.name for line in found] == ["geometric", "designed", "designed"]
    assert found[1].error == pytest.approx(found[2].error, rel=0.03)
    # Too few values lose what is allowed.
    assert found[0].error > 1.4 * found[1].error
