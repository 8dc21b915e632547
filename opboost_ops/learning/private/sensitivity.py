"""By how much one row can change what a tree is made of: corrected constants of DPBoost.

Gradients are integers of at most `GRADIENT_UNITS`, which is the greatest gradient that may take
part, g_l* = 1. Gains are integers in units of the squared gradient unit, rounded down; leaves are
integers, 1 / `LEAF_UNITS` each, rounded to the nearest. All bounds hold for these integers.
"""

import math
from fractions import Fraction
from functools import lru_cache

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
