"""Boosting at one party on random splits with noisy leaves.

`fit` trains a model with (epsilon, delta); `grow` draws a single tree with pure epsilon. Splits are
drawn at random and have no privacy loss, so leaves get the whole epsilon of a tree, and every tree
is trained on all rows. A row is in one leaf, where `grow` changes the sum of gradients by at most 1
and the count by 1. Both are released with noise; sums get three quarters of epsilon. A leaf's value
follows from the noisy sum S and the noisy count N,

    - S N / (N^2 + V / tau^2).

It is the mean of the gradients if N is large compared with the noise on S, whose variance is V, and
near 0 otherwise; tau is the size of a mean that counts as signal.
"""

from collections.abc import Sequence
from fractions import Fraction

import numpy as np

from opboost_ops.learning.boosters.backend import Parameters, Progress, silent
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
from opboost_ops.learning.private.noise import Memory, commit, resume, training_digest
from opboost_ops.learning.private.sensitivity import GRADIENT_UNITS, LEAF_UNITS
from opboost_ops.learning.private.tree import Candidates, Tree, child_nodes

#: Share of a tree's epsilon for sums; counts get the rest.
SUMS = Fraction(3, 4)

#: tau, for gradients of at most 1.
_SIGNAL = 0.3


def noise_of(parameters: Parameters) -> SumNoise | None:
    """Return the noise of a training with delta and its privacy loss; None without delta."""
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
    progress: Progress = silent,
) -> tuple[tuple[Tree, ...], float]:
    """Train a model, or resume an interrupted training.

    Args:
        codes: Codes of the training rows, shape (n, features), in column-major order.
        target: Class indices, or labels scaled to [-1, 1], shape (n,).
        candidates: The candidate splits.
        parameters: Training parameters, with ``private.delta``.
        memory: Storage for draws; a committed tree is never drawn again.
        progress: Called after each tree.

    Returns:
        All trees, and the initial score.

    Raises:
        ConfigError: The noise would be out of range.
        ContractError: The memory is of another training.
    """
    private, task = parameters.private, parameters.task
    assert private is not None and private.delta is not None and task != "multiclass"
    sums = sums_of(task, parameters.trees, private.epsilon, private.delta)
    # Name delta explicitly, since the noise depends on it.
    words = [b"noisy leaves", repr(parameters).encode(), repr(private.delta).encode()]
    training = training_digest(words, codes, target)
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
        splits = list(trees[number].splits) if committed else draw_splits(2**depth - 1, candidates)
        place = leaf_of(splits, codes, candidates)
        if not committed:
            leaves = _leaves(score, target, place, 2**depth, sums)
            tree = Tree(tuple(splits), leaves)
            commit(memory, tree=tree.document())
            trees.append(tree)
            progress("trees", len(trees), parameters.trees)
        step = np.array(trees[number].leaves) * (parameters.learning_rate / LEAF_UNITS)
        score += step[place]
    return tuple(trees), initial


def grow(
    codes: np.ndarray, gradients: np.ndarray, candidates: Candidates, spend: Fraction, depth: int
) -> Tree:
    """Draw a tree with random splits and noisy leaves.

    Args:
        codes: Codes of all training rows, shape (n, features), in column-major order.
        gradients: Their gradients, int64, shape (n,), at most `GRADIENT_UNITS` in absolute value.
        candidates: The candidate splits.
        spend: Epsilon of the tree.
        depth: Depth of every leaf.
    """
    rows = np.arange(len(codes))
    node = np.zeros(len(codes), dtype=np.int64)
    splits: list[int] = []
    for level in range(depth):
        splits += draw_splits(2**level, candidates)
        node = child_nodes(node, splits, codes, rows, candidates)
    place, leaves = node - (2**depth - 1), 2**depth
    # Sums of integers of 11 bits are exact in floats far beyond any number of rows.
    sums = np.bincount(place, gradients.astype(np.float64), minlength=leaves).astype(np.int64)
    counts = np.bincount(place, minlength=leaves)
    noisy_sums = noise.laplace(sums.tolist(), GRADIENT_UNITS, spend * SUMS)
    noisy_counts = noise.laplace(counts.tolist(), 1, spend * (1 - SUMS))
    return Tree(tuple(splits), noisy_leaf_values(noisy_sums, noisy_counts, spend))


def draw_splits(nodes: int, candidates: Candidates) -> list[int]:
    """Draw splits: a uniform feature, then a uniform candidate of the feature.

    Args:
        nodes: Number of splits.
        candidates: The candidate splits.
    """
    splits = []
    for feature in _uniform(nodes, len(candidates.names)):
        options = np.flatnonzero(candidates.feature == feature)
        splits.append(int(options[_uniform(1, len(options))[0]]))
    return splits


def noisy_leaf_values(
    sums: Sequence[int], counts: Sequence[int], spend: Fraction
) -> tuple[int, ...]:
    """Return leaf values from noisy sums and counts.

    Args:
        sums: Noisy sums of gradients, in gradient units.
        counts: Noisy row counts.
        spend: Epsilon of the tree.

    Returns:
        Values between -1 and 1, in leaf units.
    """
    variance = 2 / float(spend * SUMS) ** 2
    rows = np.maximum(np.array(counts, dtype=np.float64), 1.0)
    raw = -np.array(sums) / GRADIENT_UNITS * rows / (rows**2 + variance / _SIGNAL**2)
    return tuple(int(v) for v in np.rint(np.clip(raw, -1.0, 1.0) * LEAF_UNITS))


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


def _uniform(draws: int, size: int) -> np.ndarray:
    # The exponential mechanism with equal scores draws uniformly.
    return noise.choose(np.zeros((draws, size), dtype=np.int64), Fraction(1))
