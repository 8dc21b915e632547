"""A differentially private tree whose splits cost nothing: drawn at random, whatever the data.

All of the tree's epsilon goes to its leaves, and every row is in each tree. A row is in one leaf:
it moves that leaf's sum of gradients by at most 1 and its count by 1. Both are released with noise,
three quarters of the epsilon to sums. A leaf's value is made of the two noisy numbers,

    - S N / (N^2 + V / tau^2),

the mean of its gradients where N is large beside the noise on S, whose variance is V, and near 0
where it is not; tau is the size of a mean that is taken for signal.
"""

from collections.abc import Sequence
from fractions import Fraction

import numpy as np

from opboost_ops.learning.private import noise
from opboost_ops.learning.private.candidates import Candidates
from opboost_ops.learning.private.sensitivity import GRADIENT_UNITS, LEAF_UNITS
from opboost_ops.learning.private.tree import Tree, below

#: Share of a tree's epsilon that goes to sums; counts get the rest.
SUMS = Fraction(3, 4)

#: tau, of gradients that are at most 1.
_SIGNAL = 0.3


def grow(
    codes: np.ndarray, gradients: np.ndarray, candidates: Candidates, spend: Fraction, depth: int
) -> Tree:
    """Draw a tree.

    Args:
        codes: Of all training rows, shape (n, features), a column after the other in memory.
        gradients: Theirs, int64, shape (n,), none beyond `GRADIENT_UNITS`.
        candidates: What splits are drawn from.
        spend: The tree's epsilon.
        depth: Every leaf has this depth.
    """
    rows = np.arange(len(codes))
    node = np.zeros(len(codes), dtype=np.int64)
    splits: list[int] = []
    for level in range(depth):
        splits += drawn(2**level, candidates)
        node = below(node, splits, codes, rows, candidates)
    place, leaves = node - (2**depth - 1), 2**depth
    # Sums of integers of 11 bits are exact in floats far beyond any number of rows.
    sums = np.bincount(place, gradients.astype(np.float64), minlength=leaves).astype(np.int64)
    counts = np.bincount(place, minlength=leaves)
    noisy_sums = noise.laplace(sums.tolist(), GRADIENT_UNITS, spend * SUMS)
    noisy_counts = noise.laplace(counts.tolist(), 1, spend * (1 - SUMS))
    return Tree(tuple(splits), values(noisy_sums, noisy_counts, spend))


def drawn(nodes: int, candidates: Candidates) -> list[int]:
    """Splits of a depth: each feature as likely as any other, and each of its candidates.

    Args:
        nodes: How many.
        candidates: What is drawn from.
    """
    splits = []
    for feature in _even(nodes, len(candidates.names)):
        mine = np.flatnonzero(candidates.feature == feature)
        splits.append(int(mine[_even(1, len(mine))[0]]))
    return splits


def _even(draws: int, size: int) -> np.ndarray:
    # The exponential mechanism at equal scores: a uniform draw.
    return noise.choose(np.zeros((draws, size), dtype=np.int64), Fraction(1))


def values(sums: Sequence[int], counts: Sequence[int], spend: Fraction) -> tuple[int, ...]:
    """Leaf values, from noisy numbers alone.

    Args:
        sums: Of gradients, in gradient units.
        counts: Of rows.
        spend: The tree's epsilon.

    Returns:
        In leaf units, between -1 and 1.
    """
    variance = 2 / float(spend * SUMS) ** 2
    rows = np.maximum(np.array(counts, dtype=np.float64), 1.0)
    raw = -np.array(sums) / GRADIENT_UNITS * rows / (rows**2 + variance / _SIGNAL**2)
    return tuple(int(v) for v in np.rint(np.clip(raw, -1.0, 1.0) * LEAF_UNITS))
