"""Unary encoding and the missing bit: closed forms, group loss."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest

from opboost_ops.errors import ContractError
from opboost_ops.mechanisms import UnaryEncoding
from opboost_ops.mechanisms.noise import Words
from opboost_ops.mechanisms.randomised_response import BIT
from opboost_ops.mechanisms.release import randomise_bit
from opboost_ops.privacy.loss import category_loss

EPSILONS = (0.01, 0.1, 0.5, 1.0, 2.5, 10.0)
SECRET = bytes(range(32))
PEOPLE = 20_000


@pytest.mark.parametrize("epsilon", EPSILONS)
def test_a_changed_category_costs_epsilon_over_all_rows_of_bits(epsilon: float) -> None:
    """All 2^3 outputs of all 3 categories are enumerated in integers."""
    mechanism = UnaryEncoding(epsilon=epsilon)
    counts, size = mechanism.channel(BIT).counts, 3
    worst = Fraction(1)
    for x, other in itertools.permutations(range(size), 2):
        for bits in itertools.product((0, 1), repeat=size):
            here = math.prod(counts[int(i == x)][bit] for i, bit in enumerate(bits))
            there = math.prod(counts[int(i == other)][bit] for i, bit in enumerate(bits))
            worst = max(worst, Fraction(here, there))
    curve = category_loss(mechanism, size)
    assert curve.loss[0] == curve.loss[1]
    assert curve.certificate
    assert math.log(worst) == pytest.approx(float(curve.loss[0]), rel=1e-12)
    assert float(curve.loss[0]) <= epsilon
    assert float(curve.loss[0]) == pytest.approx(epsilon, rel=1e-6)


def released(codes: np.ndarray, bit: int, epsilon: float = 1.0) -> np.ndarray:
    mechanism = UnaryEncoding(epsilon=epsilon)
    return randomise_bit(codes, 3, bit, mechanism, Words.seeded(SECRET, str(bit)))


def test_bits_of_one_row_are_independent() -> None:
    codes = np.zeros(PEOPLE, dtype=np.int64)
    first, second = released(codes, 1), released(codes, 2)
    assert abs(np.corrcoef(first, second)[0, 1]) < 6 / math.sqrt(PEOPLE)


@pytest.mark.parametrize("code", [-1, 3])
def test_an_undeclared_category_is_never_released(code: int) -> None:
    with pytest.raises(ContractError, match="outside the declared"):
        released(np.full(PEOPLE, code, dtype=np.int64), 0)
