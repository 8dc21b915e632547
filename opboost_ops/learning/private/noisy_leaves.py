"""Boosting on random splits with noisy leaves, at one party: (epsilon, delta) for a whole model."""

import numpy as np

from opboost_ops.learning.boosters.frame import Parameters, Tell, unheard
from opboost_ops.learning.federboost.sum_noise import SumNoise
from opboost_ops.learning.private import noise, random_tree
from opboost_ops.learning.private.candidates import Candidates
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
from opboost_ops.learning.private.memory import Memory, commit, digest_of, resume
from opboost_ops.learning.private.sensitivity import LEAF_UNITS
from opboost_ops.learning.private.tree import Tree

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
        splits = (
            list(trees[number].splits) if committed else random_tree.drawn(2**depth - 1, candidates)
        )
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
