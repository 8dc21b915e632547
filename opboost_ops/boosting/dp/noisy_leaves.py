"""Boosting on random splits with Skellam noise on leaf sums: (epsilon, delta) for a whole model.

Splits are drawn without a look at any row. A row is in one leaf of each tree, where it moves the
sum of gradients by at most `clip` and the sum of hessians by at most its greatest value, both as
integers. All sums of a model share one Renyi curve, which is turned into epsilon once, so that many
trees with much noise each cost as little as few trees with less.

A leaf's value is made of its two noisy sums, gradients S and hessians H,

    - S H / (H^2 + V / tau^2),

a Newton step where H is large beside the noise on S, whose variance is V, and near 0 elsewhere.
"""

from dataclasses import dataclass
from functools import lru_cache
from math import log2, sqrt

import numpy as np

from opboost_ops.boosting.dp import noise, random_tree
from opboost_ops.boosting.dp.candidates import Candidates
from opboost_ops.boosting.dp.memory import Memory, commit, digest_of, resume
from opboost_ops.boosting.dp.sensitivity import LEAF_UNITS
from opboost_ops.boosting.dp.tree import Tree
from opboost_ops.boosting.frame import Parameters, Tell, unheard
from opboost_ops.boosting.metrics import Task
from opboost_ops.boosting.sum_noise import Release, SumNoise, calibrated
from opboost_ops.errors import ConfigError

#: Trees, deepest leaf and learning rate where the federation file declares none.
TREES, DEPTH, RATE = 200, 6, 0.2

#: A leaf is one bit of 64.
DEEPEST = 6

#: Steps of a gradient to its clip for each step of a hessian to its greatest value: hessians get
#: a seventeenth of the divergence, since leaves need them only roughly.
_RATIO = 4

#: Share of the divergence that the initial score gets.
_FACTS = 0.02

#: Greatest absolute gradient, of labels in {0, 1} (log loss) and in [-1, 1] (squared loss).
_CLIP: dict[Task, float] = {"binary": 0.5, "regression": 0.25}

#: Greatest hessian of a row.
_HESSIAN: dict[Task, float] = {"binary": 0.25, "regression": 1.0}

#: tau: the step that counts as signal, as a share of clip / greatest hessian.
_SIGNAL = 0.5

#: Greatest step, in tau.
_LONGEST = 4

#: Rows in a leaf, in standard deviations of the noise of one row's whole sum, at the least.
_ROWS = 4.5

#: Steps of a gradient from 0 to its clip are a power of two between these.
_FINEST, _COARSEST = 12, 4

#: Greatest mean of the noise's Poisson numbers: its table then has about a million thresholds.
_MEAN = 2**30


@dataclass(frozen=True)
class Sums:
    """What the sums of a model are worth, and their noise; it follows from declarations alone.

    Attributes:
        units: Steps of a gradient from 0 to its clip.
        noise: By phase: ``facts`` for the initial score, ``trees`` for leaves.
    """

    units: int
    noise: SumNoise


@dataclass(frozen=True)
class Drawn:
    """What a training has drawn.

    Attributes:
        trees: In order; leaves in leaf units.
        initial: The score before all trees.
        candidates: What splits were drawn from.
    """

    trees: tuple[Tree, ...]
    initial: float
    candidates: Candidates


@lru_cache(maxsize=64)
def sums_of(task: Task, trees: int, epsilon: float, delta: float) -> Sums:
    """The least noise under which a whole model stays within (epsilon, delta).

    Args:
        task: ``binary`` or ``regression``.
        trees: How many.
        epsilon: For a row that is added or removed.
        delta: Its delta.

    Raises:
        ConfigError: The noise would be out of range.
    """
    first = 2 if task == "regression" else 1
    for exponent in range(_FINEST, _COARSEST - 1, -1):
        units = 2**exponent
        hessians = units // _RATIO
        # A replaced row changes its class, or its label from one bound to the other; in a tree it
        # stays in its leaf with the opposite gradient, or moves to another one.
        square = units**2 + hessians**2
        facts = (2 * units, (4 if task == "regression" else 2) * units**2)
        leaves = (2 * (units + hessians), max(4 * units**2 + hessians**2, 2 * square))
        releases = (
            Release("facts", 1, first * units, first * units**2, _FACTS, facts),
            Release("trees", trees, units + hessians, square, 1 - _FACTS, leaves),
        )
        try:
            found = calibrated(releases, 1, epsilon, delta)
        except ConfigError:
            # So fine a step takes more noise than can be drawn; the coarsest one decides.
            if exponent == _COARSEST:
                raise
            continue
        if max(found.means.values()) <= _MEAN or exponent == _COARSEST:
            return Sums(units, found)
    raise AssertionError("unreachable")


def noise_of(parameters: Parameters) -> SumNoise | None:
    """The noise of a training, and what it costs; None for epsilon alone.

    Args:
        parameters: As declared.
    """
    private = parameters.private
    if private is None or private.delta is None or parameters.task == "multiclass":
        return None
    return sums_of(parameters.task, parameters.trees, private.epsilon, private.delta).noise


def depth_of(rows: float, sums: Sums, trees: int, deepest: int) -> int:
    """How deep trees are: the noise of a small table would drown the sums of many leaves.

    Args:
        rows: How many there are, as told with noise.
        sums: Of the model.
        trees: How many.
        deepest: As declared.
    """
    noise_of_all = sums.noise.deviation("trees", 1) / sums.units
    signal = rows / noise_of_all * sqrt(trees / 2)
    return max(1, min(deepest, round(log2(max(signal, 1.0)) - _ROWS)))


def fit(
    codes: np.ndarray,
    target: np.ndarray,
    candidates: Candidates,
    parameters: Parameters,
    memory: Memory | None = None,
    tell: Tell = unheard,
) -> Drawn:
    """Train, or go on where a crashed training was.

    Args:
        codes: Of the training rows, shape (n, features), a column after the other in memory.
        target: Class indices, or labels laid on [-1, 1], shape (n,).
        candidates: What splits are drawn from.
        parameters: With ``private.delta``.
        memory: What was drawn; a committed tree is never drawn again.
        tell: Told after each tree.

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
        facts = _facts(target, task, sums)
        commit(memory, training=training, facts=facts)
    else:
        facts = lines[0]["facts"]
    trees = [Tree.of(line["tree"]) for line in lines[1:]]
    rows, initial = _initial(facts, task)
    depth = depth_of(rows, sums, parameters.trees, min(parameters.depth, DEEPEST))
    score = np.full(len(target), initial)
    for number in range(parameters.trees):
        known = number < len(trees)
        splits = list(trees[number].splits) if known else _splits(depth, candidates)
        place = leaf_of(splits, codes, candidates)
        if not known:
            leaves = _leaves(score, target, place, 2**depth, task, sums)
            tree = Tree(tuple(splits), leaves)
            commit(memory, tree=tree.document())
            trees.append(tree)
            tell("trees", len(trees), parameters.trees)
        step = np.array(trees[number].leaves) * (parameters.learning_rate / LEAF_UNITS)
        score += step[place]
    return Drawn(tuple(trees), initial, candidates)


def leaf_of(splits: list[int], codes: np.ndarray, candidates: Candidates) -> np.ndarray:
    """The leaf of each row, by one look into a small table for each feature that the tree uses.

    A node that a row leaves to the right rules out the leaves on its left; of those that no node
    rules out the row is in the first (Lucchese et al., QuickScorer, SIGIR 2015).

    Args:
        splits: Candidate of each inner node, in the order of a heap; at most 63.
        codes: Shape (n, features), a column after the other in memory.
        candidates: What the splits were drawn from.

    Returns:
        int64, shape (n,), from the left.
    """
    leaves = len(splits) + 1
    widths = np.diff(candidates.starts)
    tables: dict[int, np.ndarray] = {}
    for node, split in enumerate(splits):
        level = (node + 1).bit_length() - 1
        below = leaves >> level
        first = (node + 1 - 2**level) * below
        left = ((1 << below // 2) - 1) << first
        feature = int(candidates.feature[split])
        table = tables.setdefault(
            feature, np.full(widths[feature], np.iinfo(np.uint64).max, dtype=np.uint64)
        )
        code = np.arange(len(table))
        right = (code < candidates.low[split]) | (code > candidates.high[split])
        table[right] &= np.uint64(~left & (2**64 - 1))
    open_leaves = np.full(len(codes), np.iinfo(np.uint64).max, dtype=np.uint64)
    for feature, table in tables.items():
        open_leaves &= table[codes[:, feature]]
    lowest = open_leaves & (~open_leaves + np.uint64(1))
    return np.bitwise_count(lowest - np.uint64(1)).astype(np.int64)


def _splits(depth: int, candidates: Candidates) -> list[int]:
    return random_tree.drawn(2**depth - 1, candidates)


def _facts(target: np.ndarray, task: Task, sums: Sums) -> list[int]:
    """Rows of each class, or rows and the sum of labels, in units, with noise."""
    if task == "binary":
        exact = np.bincount(target.astype(np.int64), minlength=2)[:2] * sums.units
    else:
        units = np.rint(np.clip(target, -1, 1) * sums.units).astype(np.int64)
        exact = np.array([len(target) * sums.units, units.sum()])
    found: list[int] = (exact + noise.skellam(2, sums.noise.means["facts"])).tolist()
    return [*found, sums.units]


def _initial(facts: list[int], task: Task) -> tuple[float, float]:
    """How many rows there are, and the score before all trees, as told with noise."""
    first, second = (facts[0] / facts[2], facts[1] / facts[2])
    if task == "binary":
        first, second = max(first, 1.0), max(second, 1.0)
        return first + second, float(np.log(second / first))
    rows = max(first, 1.0)
    return rows, min(max(second / rows, -1.0), 1.0)


def leaf_sums(
    score: np.ndarray, target: np.ndarray, place: np.ndarray, leaves: int, task: Task, units: int
) -> np.ndarray:
    """Sums of gradients of each leaf, then of hessians: a row moves one of each.

    Args:
        score: Of each row so far, shape (n,).
        target: Class indices, or labels laid on [-1, 1], shape (n,).
        place: Leaf of each row.
        leaves: How many.
        task: ``binary`` or ``regression``.
        units: Steps of a gradient from 0 to its clip.

    Returns:
        int64, shape (2 leaves,). A row moves its gradient sum by at most `units`, and its hessian
        sum by at most a quarter of that.
    """
    if task == "binary":
        chance = 1 / (1 + np.exp(-score))
        gradient, hessian = chance - target, chance * (1 - chance)
    else:
        gradient, hessian = score - target, np.ones(len(target))
    most = units // _RATIO
    steps = np.clip(np.rint(gradient * (units / _CLIP[task])), -units, units)
    weights = np.clip(np.rint(hessian * (most / _HESSIAN[task])), 0, most)
    # Sums of integers of 12 bits are exact in floats far beyond any number of rows.
    sums = [np.bincount(place, each, minlength=leaves) for each in (steps, weights)]
    return np.concatenate(sums).astype(np.int64)


def _leaves(
    score: np.ndarray, target: np.ndarray, place: np.ndarray, leaves: int, task: Task, sums: Sums
) -> tuple[int, ...]:
    """Noisy leaf values, in leaf units."""
    exact = leaf_sums(score, target, place, leaves, task, sums.units)
    noisy = exact + noise.skellam(2 * leaves, sums.noise.means["trees"])
    spread = sums.noise.deviation("trees", 1)
    gradient, hessian = _CLIP[task] / sums.units, _HESSIAN[task] / (sums.units // _RATIO)
    slope = noisy[:leaves] * gradient
    curvature = np.maximum(noisy[leaves:], spread) * hessian
    tau = _SIGNAL * _CLIP[task] / _HESSIAN[task]
    found = -slope * curvature / (curvature**2 + (spread * gradient / tau) ** 2)
    found = np.clip(found, -_LONGEST * tau, _LONGEST * tau)
    return tuple(int(value) for value in np.rint(found * LEAF_UNITS))
