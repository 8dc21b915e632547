"""How epsilon is spent: shares of ensembles, trees, depths and leaves; what a log adds up to."""

import math
from collections import defaultdict
from collections.abc import Iterable
from fractions import Fraction
from functools import lru_cache

from opboost_ops.config.schema import Record


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
