"""Figures of numbers on disk are, to the last bit, those that numpy finds of them in memory.

But for numpy 2.2, whose sums do not add in pairs beyond some thousand numbers.
"""

import math

import numpy as np
import pytest

from opboost_ops.tables.spill.arrays import nth_smallest, total


@pytest.mark.parametrize("rows", [1, 131_072, 131_073, 300_007])
def test_figures_are_numpys(rows: int) -> None:
    rng = np.random.default_rng(rows)
    # Of sizes so far apart that another order of adding up gives another sum.
    numbers = rng.normal(size=rows) * 10.0 ** rng.integers(-9, 9, rows)
    numbers[:: max(rows // 5, 1)] = 0.0
    if not np.__version__.startswith("2.2."):
        assert total(numbers) == numbers.sum()
        assert total(numbers) / rows == numbers.mean()
    assert abs(total(numbers) - math.fsum(numbers)) <= 1e-14 * np.abs(numbers).sum()
    ordered = np.sort(numbers)
    for n in {0, rows // 20, rows // 2, rows - 1}:
        assert nth_smallest(lambda: iter(np.array_split(numbers, 3)), n) == ordered[n]


def test_equal_numbers_and_the_ends_of_the_scale() -> None:
    numbers = np.array([np.inf, -0.0, 5e-324, 0.0, -np.inf, -5e-324, 1.5, 1.5, -1.5])
    found = [nth_smallest(lambda: iter([numbers]), n) for n in range(len(numbers))]
    assert found == np.sort(numbers).tolist()
