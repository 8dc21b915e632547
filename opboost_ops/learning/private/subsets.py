"""Which tree of an ensemble each row goes to: an independent secret draw a row.

Subsets of a fixed size, as the paper draws them, would break parallel composition: one added row
would change which rows the other trees hold.
"""

from fractions import Fraction

import numpy as np

from opboost_ops.learning.private import noise


def shares(rate: Fraction, trees: int) -> list[Fraction]:
    """The trees' shares of the rows: eta (1 - eta)^e / (1 - (1 - eta)^T_e), which sum to 1.

    Args:
        rate: eta, below 1 if there are several trees.
        trees: Of this ensemble.
    """
    left = 1 - rate
    return [rate * left**step / (1 - left**trees) for step in range(trees)]


def tree_of_row(key: bytes, ensemble: int, rows: int, rate: Fraction, trees: int) -> np.ndarray:
    """Each row's tree.

    Args:
        key: The training's.
        ensemble: Number of the ensemble.
        rows: How many; a row is named by its place.
        rate: eta.
        trees: Of this ensemble.

    Returns:
        int64, 0..trees - 1, shape (rows,).
    """
    if trees == 1:
        return np.zeros(rows, dtype=np.int64)
    bounds, reached = [], Fraction(0)
    for share in shares(rate, trees)[:-1]:
        reached += share
        bounds.append(int(reached * 2**64))
    edges = np.array(bounds, dtype=np.uint64)
    return np.searchsorted(edges, noise.words(key, ensemble, rows), side="right")
