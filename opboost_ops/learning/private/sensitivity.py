"""Sensitivity of DPBoost's trees to one row, and the division of epsilon.

Gradients are integers of at most `GRADIENT_UNITS`, the greatest gradient that takes part, g_l* = 1.
Gains are integers in squared gradient units, rounded down; leaf values are integers in units of
1 / `LEAF_UNITS`, rounded to the nearest. All bounds hold for these integers.
"""

import math
from collections import defaultdict
from collections.abc import Iterable
from fractions import Fraction
from functools import lru_cache

import numpy as np

from opboost_ops.config.schema import Record

#: Units of the gradient g_l* = 1.
GRADIENT_UNITS = 2**10

#: Units of the leaf value 1.
LEAF_UNITS = 2**20

#: One added row changes a gain by more than -3 g_l*^2 and at most g_l*^2. The paper's Lemma 1 only
#: has the upper bound. Rounding down does not widen the range, since the bounds are integers.
GAIN_FALL = 3 * GRADIENT_UNITS**2

GAIN_RISE = GRADIENT_UNITS**2


def gain_range() -> int:
    """Return the range of a gain's changes: weights exp(epsilon G / range) cost epsilon.

    The gains of all candidates change within one interval of this length, so the ratio of a weight
    to the sum of weights changes by a factor of at most exp(epsilon).
    """
    return GAIN_FALL + GAIN_RISE


@lru_cache
def leaf_clip(rate: Fraction, step: int) -> int:
    """Return the clip of geometric leaf clipping: g_l* (1 - eta)^e, in leaf units, rounded down.

    Args:
        rate: eta.
        step: e, the tree's number within its ensemble, from 0.
    """
    return max(1, math.floor(LEAF_UNITS * (1 - rate) ** step))


@lru_cache
def leaf_change(regularisation: Fraction, clip: int) -> int:
    """Return the sensitivity of a leaf: min(g_l* / (1 + lambda), 2 clip), in leaf units.

    Rounding to the nearest adds less than a unit, so the bound is rounded up.

    Args:
        regularisation: lambda.
        clip: From `leaf_clip`.
    """
    return min(math.ceil(LEAF_UNITS / (1 + regularisation)), 2 * clip)


def scale_labels(label: np.ndarray, bounds: tuple[float, float]) -> np.ndarray:
    """Scale labels to [-1, 1]; labels outside the bounds are clipped.

    Args:
        label: Shape (n,).
        bounds: Declared bounds, which must not depend on the labels.
    """
    lower, upper = bounds
    share = (np.asarray(label, dtype=np.float64) - lower) / (upper - lower)
    return np.asarray(np.clip(2 * share - 1, -1.0, 1.0))


def count_outside(label: np.ndarray, bounds: tuple[float, float] | None) -> int:
    """Return the number of labels outside declared bounds, which must not leave the party.

    Args:
        label: Shape (n,).
        bounds: Declared bounds; None for classes.
    """
    if bounds is None:
        return 0
    return int(((label < bounds[0]) | (label > bounds[1])).sum())


def gradients(score: np.ndarray, target: np.ndarray) -> np.ndarray:
    """Return the gradient of each row, score - label, rounded to units.

    Args:
        score: Score of the committed trees, shape (n,).
        target: Scaled labels, shape (n,).

    Returns:
        int64, shape (n,).
    """
    # Greater gradients are filtered or clipped later, so their exact values do not matter.
    gradient = np.clip(score - target, -2.0, 2.0)
    return np.asarray(np.rint(gradient * GRADIENT_UNITS), dtype=np.int64)


def take_part(gradient: np.ndarray) -> np.ndarray:
    """Return the rows that take part in a tree, by gradient-based data filtering: |g| <= g_l*.

    A filter, unlike a clip, removes all influence of a row on the tree. It depends on each row
    separately.

    Args:
        gradient: From `gradients`.

    Returns:
        bool, shape (n,).
    """
    return np.asarray(np.abs(gradient) <= GRADIENT_UNITS)


class Spent(Record):
    """The privacy loss of one event of a training: a choice of splits, or a release of leaves.

    Attributes:
        ensemble: Number of the ensemble.
        tree: Number of the tree within its ensemble.
        depth: Depth of the nodes whose splits were chosen; None for the leaves.
        epsilon: Epsilon as an exact fraction. Nodes of one depth have disjoint rows, as do leaves.
    """

    ensemble: int
    tree: int
    depth: int | None
    epsilon: str


def ensembles(trees: int, size: int) -> list[int]:
    """Return the number of trees in each ensemble; the last ensemble may have fewer."""
    whole, rest = divmod(trees, size)
    return [size] * whole + ([rest] if rest else [])


def tree_budget(epsilon: float, trees: int, size: int) -> Fraction:
    """Return the epsilon of a tree. Losses of ensembles add up; trees within one do not.

    Args:
        epsilon: Epsilon of the whole model.
        trees: Number of trees of the whole model.
        size: Trees per ensemble, which are trained on disjoint rows.
    """
    return exact_fraction(epsilon) / math.ceil(trees / size)


@lru_cache
def split_budget(tree: Fraction, depth: int) -> tuple[Fraction, Fraction]:
    """Divide a tree's epsilon: half for its leaves, and half divided among its levels.

    Args:
        tree: Epsilon of the tree.
        depth: Number of levels with splits.

    Returns:
        Epsilon for the leaves, and for each level.
    """
    return tree / 2, tree / 2 / depth


def total_epsilon(events: Iterable[Spent]) -> Fraction:
    """Return the epsilon of a training: the sum over ensembles of their most expensive tree.

    Args:
        events: All events of the training.
    """
    trees: dict[tuple[int, int], Fraction] = defaultdict(Fraction)
    for event in events:
        trees[event.ensemble, event.tree] += Fraction(event.epsilon)
    by_ensemble: dict[int, Fraction] = defaultdict(Fraction)
    for (ensemble, _), spent in trees.items():
        by_ensemble[ensemble] = max(by_ensemble[ensemble], spent)
    return sum(by_ensemble.values(), Fraction(0))


@lru_cache
def exact_fraction(number: float) -> Fraction:
    """Return a declared number as the fraction of its decimal digits: 0.1 is a tenth."""
    return Fraction(repr(float(number)))
