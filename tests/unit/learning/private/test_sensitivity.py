"""Brute force: whatever row is added to whatever small table, no bound is passed."""

from fractions import Fraction
from itertools import combinations_with_replacement, product

import numpy as np
import pytest

from opboost_ops.learning.private import sensitivity, tree
from opboost_ops.learning.private.sensitivity import (
    GAIN_FALL,
    GAIN_RISE,
    GRADIENT_UNITS,
    LEAF_UNITS,
)
from tests.unit.learning.private.tables import bits, candidates_of

LAMBDAS = [Fraction(1, 10), Fraction(1), Fraction(1, 1000), Fraction(5, 2)]
LEVELS = [-GRADIENT_UNITS, -GRADIENT_UNITS // 3, 0, GRADIENT_UNITS]
FRAME = bits([[0, 0]])
CANDIDATES = candidates_of(FRAME)
PLACES = list(product((0, 1), repeat=2))


def gains(rows: list[tuple[tuple[int, int], int]], regularisation: Fraction) -> np.ndarray:
    codes = np.array([place for place, _ in rows], dtype=np.uint16).reshape(-1, 2)
    found = np.array([g for _, g in rows], dtype=np.int64)
    none = np.zeros(len(rows), dtype=np.int64)
    return tree.gains(codes, found, none, 1, CANDIDATES, regularisation)[0]


@pytest.mark.parametrize("regularisation", LAMBDAS, ids=str)
def test_no_row_changes_a_gain_by_more_than_the_bounds(regularisation: Fraction) -> None:
    """All tables of up to three rows, both splits, every added row; and piles of many rows."""
    cells = list(product(PLACES, LEVELS))
    tables = [list(t) for n in range(4) for t in combinations_with_replacement(cells[::3], n)]
    for level, many in product((-GRADIENT_UNITS, GRADIENT_UNITS), (1, 2, 5, 40, 1000)):
        tables.append([((0, 1), level)] * many + [((1, 0), -level)] * many)
    low, high, widest = 0, 0, 0
    for table in tables:
        before = gains(table, regularisation)
        for new in cells:
            change = gains([*table, new], regularisation) - before
            low, high = min(low, change.min()), max(high, change.max())
            widest = max(widest, int(change.max() - change.min()))
    assert -GAIN_FALL < low < -2.9 * GRADIENT_UNITS**2
    assert 0.9 * GRADIENT_UNITS**2 / (1 + regularisation) < high <= GAIN_RISE
    assert widest <= sensitivity.gain_range()
    assert widest > 3.9 * GRADIENT_UNITS**2


@pytest.mark.parametrize("regularisation", LAMBDAS, ids=str)
@pytest.mark.parametrize("step", [0, 1, 7, 49])
def test_no_row_changes_a_leaf_by_more_than_its_bound(regularisation: Fraction, step: int) -> None:
    clip = sensitivity.leaf_clip(Fraction(1, 10), step)
    bound = sensitivity.leaf_change(regularisation, clip)

    def leaf(found: tuple[int, ...]) -> int:
        values = np.array(found, dtype=np.int64)
        none = np.zeros(len(found), dtype=np.int64)
        return tree.leaf_values(values, none, 1, regularisation, clip)[0]

    levels = [*LEVELS, 1, -1, 700]
    tables = [t for n in range(5) for t in combinations_with_replacement(levels, n)]
    tables += [(level,) * many for level in LEVELS for many in (10, 100)]
    changes = [abs(leaf((*t, new)) - leaf(t)) for t in tables for new in levels]
    assert max(changes) <= bound
    # The bound is met where the first row alone is not clipped, or both sides of the clip are.
    if LEAF_UNITS / (1 + regularisation) <= clip:
        assert max(changes) >= bound - 1


def test_gains_are_the_formula_in_exact_arithmetic() -> None:
    rng = np.random.default_rng(3)
    frame = bits(rng.integers(0, 2, (300, 3)))
    candidates = candidates_of(frame)
    codes = candidates.codes(frame.matrix)
    found = rng.integers(-GRADIENT_UNITS, GRADIENT_UNITS + 1, 300)
    place = rng.integers(0, 2, 300)
    ours = tree.gains(codes, found, place, 2, candidates, Fraction(1, 10))
    for node, split in product(range(2), range(3)):
        expected = 0
        for side in (0, 1):
            rows = (place == node) & (codes[:, split] == side)
            expected += int(found[rows].sum()) ** 2 / (int(rows.sum()) + Fraction(1, 10)) // 1
        assert ours[node, split] == expected
    # Where 64 bits do not hold a square the same formula runs on Python's integers.
    huge = np.array([[3 * 10**9, -(10**7)]])
    rows = np.array([[4 * 10**6, 2 * 10**6]])
    (gain,) = tree._gain((rows[:, :1], rows[:, 1:]), (huge[:, :1], huge[:, 1:]), Fraction(1, 10))
    assert gain[0] == sum(
        s**2 // (n + Fraction(1, 10))
        for s, n in zip(huge[0].tolist(), rows[0].tolist(), strict=True)
    )


@pytest.mark.parametrize("sides", [1, 2])
@pytest.mark.parametrize("rows", [1, 50, 3000])
@pytest.mark.parametrize("digits", ["0.1", "0.10000001", "0.30000000000000004", "2.71828182845"])
def test_gains_and_leaves_are_exact_for_a_regularisation_of_many_digits(
    sides: int, rows: int, digits: str
) -> None:
    """Products with its denominator need more than 64 bits."""
    regularisation = sensitivity.exact_fraction(float(digits))
    rng = np.random.default_rng(rows)
    codes = rng.integers(0, sides, (rows, 2)).astype(np.uint16)
    found = rng.integers(0, GRADIENT_UNITS + 1, rows)
    none = np.zeros(rows, dtype=np.int64)
    ours = tree.gains(codes, found, none, 1, CANDIDATES, regularisation)[0].tolist()
    for split in range(2):
        children = [found[codes[:, split] == side].tolist() for side in (0, 1)]
        assert ours[split] == sum(
            int(sum(child) ** 2 / (len(child) + regularisation)) for child in children
        )
    (leaf,) = tree.leaf_values(found, none, 1, regularisation, LEAF_UNITS)
    exact = -int(found.sum()) * (LEAF_UNITS // GRADIENT_UNITS) / (rows + regularisation)
    assert abs(leaf - exact) <= Fraction(1, 2)


def test_a_row_beyond_the_greatest_gradient_sits_out_and_is_not_clipped() -> None:
    score = np.array([0.0, 1.0, 1.5, -3.0, 0.4])
    target = np.array([1.0, 0.0, 0.0, 1.0, 0.4])
    found = sensitivity.gradients(score, target)
    assert sensitivity.take_part(found).tolist() == [True, True, False, False, True]
    assert abs(found[2]) > GRADIENT_UNITS


def test_labels_are_scaled_by_declared_bounds_alone() -> None:
    assert sensitivity.scale_labels(np.array([0, 5, 10, 90.0, -1]), (0, 10)).tolist() == [
        -1,
        0,
        1,
        1,
        -1,
    ]
    found = sensitivity.scale_labels(np.array([-4, -3, 1, 4, 5, 6]), (-3, 5))
    assert found.tolist() == [-1, -1, 0, 0.75, 1, 1]


def test_labels_outside_their_bounds_are_counted() -> None:
    label = np.array([-3.1, -3.0, 0.0, 5.0, 5.1, 9.0])
    assert sensitivity.count_outside(label, (-3.0, 5.0)) == 3
    assert sensitivity.count_outside(label, None) == 0


def test_a_clip_of_many_trees_is_never_nothing() -> None:
    clips = [sensitivity.leaf_clip(Fraction(1, 10), step) for step in range(300)]
    assert clips[0] == LEAF_UNITS
    assert clips == [max(1, LEAF_UNITS * 9**k // 10**k) for k in range(300)]
