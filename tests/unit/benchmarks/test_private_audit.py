"""The audit of private models: it stays below what is declared, and finds half of the noise."""

from dataclasses import replace

import pytest

from benchmarks.papers.private_audit import Setting, audit

ADDED = Setting(neighbour="added", epsilon=2.0)
REPLACED = Setting(neighbour="replaced", epsilon=2.0)


@pytest.mark.parametrize(("setting", "runs"), [(ADDED, 600), (REPLACED, 400)])
def test_bounds_are_below_what_is_declared_and_above_it_with_half_of_the_noise(
    setting: Setting, runs: int
) -> None:
    found = audit(setting, runs)
    assert found["lower_bound"] < found["declared"]
    # An attack that shows nothing at all would be none.
    assert 0.1 * found["declared"] < found["gaussian_bound"] < found["declared"]
    weakened = audit(replace(setting, weakened=2), runs)
    assert weakened["gaussian_bound"] > weakened["declared"]
