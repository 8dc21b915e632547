"""Boosting on random splits with noisy leaves, at one party: (epsilon, delta) for a whole model.

Splits cost nothing: they are drawn at random, whatever the data. All of the tree's epsilon goes to
its leaves, and every row is in each tree. A row is in one leaf:
it moves that leaf's sum of gradients by at most 1 and its count by 1. Both are released with noise,
three quarters of the epsilon to sums. A leaf's value is made of the two noisy numbers,

    - S N / (N^2 + V / tau^2),

the mean of its gradients where N is large beside the noise on S, whose variance is V, and near 0
where it is not; tau is the size of a mean that is taken for signal.
"""

from collections.abc import Sequence
from fractions import Fraction

import numpy as np

from opboost_ops.learning.boosters.backend import Parameters, Tell, unheard
from opboost_ops.learning.federboost.sum_noise import SumNoise
from opboost_ops.learning.private import noise
from opboost_ops.learning.private.leaf_sums import (
    Sums,
    depth_of,
    facts_of,
    initial_of,
    leaf_of,
    leaf_sums,
    leaf_values,
    sums_of,
)
from opboost_ops.learning.private.noise import Memory, commit, digest_of, resume
from opboost_ops.learning.private.sensitivity import GRADIENT_UNITS, LEAF_UNITS
from opboost_ops.learning.private.tree import Candidates, Tree, below

#: Share of a tree's epsilon that goes to sums; counts get the rest.
SUMS = Fraction(3, 4)

#: tau, of gradients that are at most 1.
_SIGNAL = 0.3

#: Trees, deepest leaf and learning rate where the federation file declares none.
TREES, DEPTH, RATE = 400, 6, 0.15


def noise_of(parameters: Parameters) -> SumNoise | None:
    """The noise of a training, and what it costs; None for epsilon alone.

    Args:
        parameters: As declared.
    """
    private = parameters.private
    if private is None or private.delta is None or parameters.task == "multiclass":
        return None
    return sums_of(parameters.task, parameters.trees, private.epsilon, private.delta).noise


def fit(
    codes: np.ndarray,
    target: np.ndarray,
    candidates: Candidates,
    parameters: Parameters,
    memory: Memory | None = None,
    tell: Tell = unheard,
) -> tuple[tuple[Tree, ...], float]:
    """Train, or go on where a crashed training was.

    Args:
        codes: Of the training rows, shape (n, features), a column after the other in memory.
        target: Class indices, or labels laid on [-1, 1], shape (n,).
        candidates: What splits are drawn from.
        parameters: With ``private.delta``.
        memory: What was drawn; a committed tree is never drawn again.
        tell: Told after each tree.

    Returns:
        All trees, and the score before them.

    Raises:
        ConfigError: The noise would be out of range.
        ContractError: The memory is of another training.
    """
    private, task = parameters.private, parameters.task
    assert private is not None and private.delta is not None and task != "multiclass"
    sums = sums_of(task, parameters.trees, private.epsilon, private.delta)
    # The parameters' own words leave delta out, by which the noise is made.
    words = [b"noisy leaves", repr(parameters).encode(), repr(private.delta).encode()]
    training = digest_of(words, codes, target)
    lines = resume(memory, training)
    if not lines:
        facts = _facts(target, sums)
        commit(memory, training=training, facts=facts)
    else:
        facts = lines[0]["facts"]
    trees = [Tree.of(line["tree"]) for line in lines[1:]]
    rows, initial = initial_of(np.array(facts[:2]), task, facts[2])
    depth = depth_of(rows, sums, parameters.depth)
    score = np.full(len(target), initial)
    for number in range(parameters.trees):
        committed = number < len(trees)
        splits = list(trees[number].splits) if committed else drawn(2**depth - 1, candidates)
        place = leaf_of(splits, codes, candidates)
        if not committed:
            leaves = _leaves(score, target, place, 2**depth, sums)
            tree = Tree(tuple(splits), leaves)
            commit(memory, tree=tree.document())
            trees.append(tree)
            tell("trees", len(trees), parameters.trees)
        step = np.array(trees[number].leaves) * (parameters.learning_rate / LEAF_UNITS)
        score += step[place]
    return tuple(trees), initial


def _facts(target: np.ndarray, sums: Sums) -> list[int]:
    exact = facts_of(target, sums)
    noisy: list[int] = (exact + noise.skellam(2, sums.noise.means["facts"])).tolist()
    return [*noisy, sums.units]


def _leaves(
    score: np.ndarray, target: np.ndarray, place: np.ndarray, leaves: int, sums: Sums
) -> tuple[int, ...]:
    exact = leaf_sums(score, target, place, leaves, sums)
    noisy = exact + noise.skellam(2 * leaves, sums.noise.means["trees"])
    return leaf_values(noisy, sums, sums.noise.deviation("trees", 1))


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
