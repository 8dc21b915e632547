"""By how much one row can change a tree: integer gradients, corrected constants, shares of epsilon.

Gradients are integers of at most `GRADIENT_UNITS`, which is the greatest gradient that may take
part, g_l* = 1. Gains are integers in units of the squared gradient unit, rounded down; leaves are
integers, 1 / `LEAF_UNITS` each, rounded to the nearest. All bounds hold for these integers.
"""

import math
from collections import defaultdict
from collections.abc import Iterable
from fractions import Fraction
from functools import lru_cache

import numpy as np

from opboost_ops.config.schema import Record

#: Steps of a gradient from 0 to g_l* = 1.
GRADIENT_UNITS = 2**10

#: Steps of a leaf from 0 to 1.
LEAF_UNITS = 2**20

#: One added row changes a gain by more than -3 g_l*^2 and at most g_l*^2. The paper's Lemma 1
#: bounds the change from above only. Rounding down does not widen this: the bounds are integers.
GAIN_FALL = 3 * GRADIENT_UNITS**2

GAIN_RISE = GRADIENT_UNITS**2


def gain_range() -> int:
    """The range of a gain's changes: with weights exp(epsilon G / range) a choice costs epsilon.

    All candidates' gains change within one interval of this length, so the weights' ratio to
    their sum changes by a factor of at most exp(epsilon).
    """
    return GAIN_FALL + GAIN_RISE


@lru_cache
def leaf_clip(rate: Fraction, step: int) -> int:
    """Geometric leaf clipping: g_l* (1 - eta)^e, in leaf units, rounded down.

    Args:
        rate: eta.
        step: e, the tree's place in its own ensemble, from 0; not its place among all trees.
    """
    return max(1, math.floor(LEAF_UNITS * (1 - rate) ** step))


@lru_cache
def leaf_change(regularisation: Fraction, clip: int) -> int:
    """The most by which one row changes a leaf: min(g_l* / (1 + lambda), 2 clip), in leaf units.

    Rounding to the nearest adds less than a unit, so the bound is rounded up.

    Args:
        regularisation: lambda.
        clip: From `leaf_clip`.
    """
    return min(math.ceil(LEAF_UNITS / (1 + regularisation)), 2 * clip)


def scaled(label: np.ndarray, bounds: tuple[float, float]) -> np.ndarray:
    """Labels laid on [-1, 1] by declared bounds; what lies outside is clipped.

    Args:
        label: Shape (n,).
        bounds: Declared, never read off the labels.
    """
    lower, upper = bounds
    share = (np.asarray(label, dtype=np.float64) - lower) / (upper - lower)
    return np.asarray(np.clip(2 * share - 1, -1.0, 1.0))


def outside(label: np.ndarray, bounds: tuple[float, float] | None) -> int:
    """How many labels lie outside declared bounds, which is for the party's own eyes alone.

    Args:
        label: Shape (n,).
        bounds: Declared; None for classes.
    """
    if bounds is None:
        return 0
    return int(((label < bounds[0]) | (label > bounds[1])).sum())


def gradients(score: np.ndarray, target: np.ndarray) -> np.ndarray:
    """Each row's own gradient, score - label, to the nearest unit.

    Args:
        score: What the committed trees say, shape (n,).
        target: Scaled labels, shape (n,).

    Returns:
        int64, shape (n,).
    """
    # Beyond twice the greatest gradient that may take part, the number itself does not matter.
    gradient = np.clip(score - target, -2.0, 2.0)
    return np.asarray(np.rint(gradient * GRADIENT_UNITS), dtype=np.int64)


def taking_part(gradient: np.ndarray) -> np.ndarray:
    """Gradient-based data filtering: a row with |g| > g_l* sits this tree out.

    A filter and not a clip: such a row has no influence on this tree at all. It decides about each
    row by that row alone.

    Args:
        gradient: From `gradients`.

    Returns:
        bool, shape (n,).
    """
    return np.asarray(np.abs(gradient) <= GRADIENT_UNITS)


class Spent(Record):
    """One event of a training: a choice or a release, and what it cost.

    Attributes:
        ensemble: Number of the ensemble.
        tree: Number of the tree in its ensemble.
        depth: Depth of the nodes whose splits were chosen; None for the leaves.
        epsilon: As a fraction, exactly. Nodes of one depth hold different rows, and so do leaves.
    """

    ensemble: int
    tree: int
    depth: int | None
    epsilon: str


def ensembles(trees: int, size: int) -> list[int]:
    """How many trees each ensemble has; the last one may have fewer."""
    whole, rest = divmod(trees, size)
    return [size] * whole + ([rest] if rest else [])


def tree_budget(epsilon: float, trees: int, size: int) -> Fraction:
    """The budget of a tree: ensembles add up; the trees of one hold different rows.

    Args:
        epsilon: Of the whole model.
        trees: Of the whole model.
        size: Trees of an ensemble.
    """
    return exactly(epsilon) / math.ceil(trees / size)


@lru_cache
def parts(tree: Fraction, depth: int) -> tuple[Fraction, Fraction]:
    """A tree's budget: half for its leaves, half spread over its depths.

    Args:
        tree: What it may spend.
        depth: How many depths it has.

    Returns:
        For the leaves, and for each depth: leaves + depth x node = tree.
    """
    return tree / 2, tree / 2 / depth


def total(events: Iterable[Spent]) -> Fraction:
    """The sum of a log: over ensembles, of their dearest tree.

    Args:
        events: Of one training.
    """
    trees: dict[tuple[int, int], Fraction] = defaultdict(Fraction)
    for event in events:
        trees[event.ensemble, event.tree] += Fraction(event.epsilon)
    dearest: dict[int, Fraction] = defaultdict(Fraction)
    for (ensemble, _), spent in trees.items():
        dearest[ensemble] = max(dearest[ensemble], spent)
    return sum(dearest.values(), Fraction(0))


@lru_cache
def exactly(number: float) -> Fraction:
    """A declared number as it is written: 0.1 is a tenth."""
    return Fraction(repr(float(number)))
