"""The measure by which the adversary benchmark counts what an attacker reads."""

from math import log2

import numpy as np
import pytest

from benchmarks.bits import bits

RANDOM = np.random.default_rng(35)


def test_what_tells_the_secret_counts_with_its_entropy() -> None:
    secrets = RANDOM.permutation(np.arange(200) % 10).tolist()
    assert bits(secrets, [f"cell {one}" for one in secrets]) == pytest.approx(log2(10), abs=0.01)
    assert bits(secrets, [one // 5 for one in secrets]) == pytest.approx(1, abs=0.1)


def test_few_people_are_enough_for_a_gate_that_tells_one_bit() -> None:
    secrets = RANDOM.permutation(np.arange(30) % 10).tolist()
    assert bits(secrets, [one > 4 for one in secrets]) > 0.5


@pytest.mark.parametrize("kinds", [1, 2, 10, 10**9])
def test_what_does_not_depend_on_the_secret_counts_nothing(kinds: int) -> None:
    """Also where everybody sees something of their own, such as bytes under a nonce."""
    secrets = (np.arange(120) % 10).tolist()
    assert bits(secrets, RANDOM.integers(kinds, size=120).tolist()) == 0
