"""DPBoost's counterexamples of docs/reference/errata.md."""

from fractions import Fraction
from pathlib import Path

import numpy as np

from benchmarks.papers.private_variants import paper_gain_range
from opboost_ops.learning.private import sensitivity, trainer
from opboost_ops.learning.private.sensitivity import GRADIENT_UNITS, LEAF_UNITS, Spent

TEXT = (
    (Path(__file__).parents[4] / "docs" / "reference" / "errata.md").read_text().replace("\n", " ")
)
LAMBDA, RATE = Fraction(1, 10), Fraction(1, 10)


def fall(rows: int) -> float:
    """How a gain changes when a row of gradient -1 joins rows of gradient 1."""
    return float((rows - 1) ** 2 / (rows + 1 + LAMBDA) - rows**2 / (rows + LAMBDA))


def test_lemma_1_bounds_the_rise_alone() -> None:
    claimed = paper_gain_range(LAMBDA) / 2 / GRADIENT_UNITS**2
    assert f"it is {claimed:.3f}" in TEXT
    assert f"changes the gain by {fall(2):.3f}, to 1,000 such rows by {fall(1000):.3f}" in TEXT
    assert claimed < 1 < -fall(2) < -fall(1000) < 3
    assert -fall(1000) < sensitivity.GAIN_FALL / GRADIENT_UNITS**2 == 3


def test_leaves_on_the_budget_of_nodes_do_not_add_up() -> None:
    leaves, node = sensitivity.split_budget(Fraction(1), 6)
    depths = [Spent(ensemble=0, tree=0, depth=d, epsilon=str(node)) for d in range(6)]
    wrong = [*depths, Spent(ensemble=0, tree=0, depth=None, epsilon=str(node))]
    right = [*depths, Spent(ensemble=0, tree=0, depth=None, epsilon=str(leaves))]
    assert sensitivity.total_epsilon(wrong) == Fraction(7, 12)
    assert sensitivity.total_epsilon(right) == 1
    assert leaves / node == 6


def test_the_thousandth_tree_and_the_second_ensemble() -> None:
    assert f"clipped to {float((1 - RATE) ** 999):.1e}" in TEXT
    assert sensitivity.leaf_clip(RATE, 999 % 50) == int(LEAF_UNITS * (1 - RATE) ** 49)
    shares = trainer.shares(RATE, 50)
    second = sum(share * (1 - RATE) ** 50 for share in shares)
    assert f"would be given {float(second):.2%}".replace("%", " %") in TEXT
    assert sum(shares) == 1


def test_fixed_sizes_move_another_row() -> None:
    sizes = {n: [round(n * share) for share in (0.6, 0.4)] for n in (11, 12)}
    assert sizes == {11: [7, 4], 12: [7, 5]}
    key = bytes(range(32))
    before = trainer.tree_of_row(key, 0, 11, Fraction(2, 5), 2)
    after = trainer.tree_of_row(key, 0, 12, Fraction(2, 5), 2)
    assert np.array_equal(before, after[:11])
