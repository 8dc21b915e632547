"""Leaf sums of random trees and their noise, for all private trainers with a delta.

Splits are drawn without reading any row. A row is in one leaf of each tree, where it changes the
sum of gradients by at most the clip and the sum of hessians by at most its greatest value, both as
integers. All sums of a model are composed in one Renyi curve, which is converted to epsilon once,
so many trees with much noise cost as little as few trees with less.

A leaf's value follows from its noisy sums of gradients S and hessians H,

    - S H / (H^2 + V / tau^2).

It is a Newton step if H is large compared with the noise on S, whose variance is V, and near 0
otherwise.

Either one party adds all noise (`noisy_leaves`), or each party of a session adds a share
(`private_federboost`).
"""

from dataclasses import dataclass
from functools import lru_cache
from math import log2, sqrt

import numpy as np

from opboost_ops.errors import ConfigError
from opboost_ops.learning.federboost.sum_noise import Release, SumNoise, calibrate
from opboost_ops.learning.metrics import Task
from opboost_ops.learning.private.sensitivity import LEAF_UNITS
from opboost_ops.learning.private.tree import Candidates

#: Greatest depth: `leaf_of` represents each leaf as a bit of 64.
MAX_DEPTH = 6

#: Units of a row in counts by cell; with whole rows, small noise would be rounded up too much.
COUNT_UNITS = 16

#: Units of a gradient's clip per unit of the greatest hessian. Hessians get a seventeenth of the
#: divergence, since leaves need them only roughly.
_STEP_RATIO = 4

#: Shares of the divergence for the initial score, and for row counts by cell if there are any.
_FACTS_SHARE, _LOOKUP_SHARE = 0.02, 0.08

#: Clip of gradients, for labels in {0, 1} (log loss) and in [-1, 1] (squared loss).
_CLIP: dict[Task, float] = {"binary": 0.5, "regression": 0.25}

#: Greatest hessian of a row.
_HESSIAN: dict[Task, float] = {"binary": 0.25, "regression": 1.0}

#: tau, the step that counts as signal, as a share of clip / greatest hessian.
_SIGNAL = 0.5

#: Greatest step, in multiples of tau.
_MAX_STEP = 4

#: Number of models that `noise_error` simulates.
_SIMULATED = 1000

#: Least rows per leaf, as a binary logarithm of multiples of the noise's standard deviation.
_ROWS = 4.5

#: Binary logarithms of the most and the fewest units of a gradient's clip.
_FINEST, _COARSEST = 12, 3

#: Greatest mean of the noise's Poisson variables, whose table then has about a million thresholds.
_MAX_MEAN = 2**30


@dataclass(frozen=True)
class Sums:
    """The units of a model's sums and their noise, which depend on declarations only.

    Attributes:
        task: ``binary`` or ``regression``.
        trees: Number of trees.
        units: Units of a gradient's clip.
        noise: Noise of the phases ``facts`` (initial score), ``lookup`` (row counts by cell) and
            ``trees`` (leaf sums).
    """

    task: Task
    trees: int
    units: int
    noise: SumNoise

    @property
    def hessian_units(self) -> int:
        """Units of the greatest hessian."""
        return self.units // _STEP_RATIO


@lru_cache(maxsize=64)
def sums_of(
    task: Task, trees: int, epsilon: float, delta: float, honest: int = 1, counted: int = 0
) -> Sums:
    """Return the least noise that keeps a whole model within (epsilon, delta).

    Args:
        task: ``binary`` or ``regression``.
        trees: Number of trees.
        epsilon: Epsilon for a row that is added or removed.
        delta: Delta for a row that is added or removed.
        honest: Number of parties whose noise counts.
        counted: Number of columns whose rows are counted by cell.

    Raises:
        ConfigError: The noise would be out of range.
    """
    number = task == "regression"
    rest = 1 - _FACTS_SHARE - (_LOOKUP_SHARE if counted else 0)
    moved = (2 * COUNT_UNITS * counted, 2 * COUNT_UNITS**2 * counted)
    cells = Release("lookup", 1, moved[0] // 2, moved[1] // 2, _LOOKUP_SHARE, moved)
    for exponent in range(_FINEST, _COARSEST - 1, -1):
        units = 2**exponent
        hessians = units // _STEP_RATIO
        square = units**2 + hessians**2
        # A replaced row changes its class, or its label from one bound to the other. In a tree, it
        # stays in its leaf with the opposite gradient or moves to another leaf.
        label = (2 * units, (4 if number else 2) * units**2)
        leaves = (2 * (units + hessians), max(4 * units**2 + hessians**2, 2 * square))
        first = 2 if number else 1
        releases = (
            Release("facts", 1, first * units, first * units**2, _FACTS_SHARE, label),
            *((cells,) if counted else ()),
            Release("trees", trees, units + hessians, square, rest, leaves),
        )
        try:
            calibration = calibrate(releases, honest, epsilon, delta)
        except ConfigError:
            # Such fine units need more noise than can be drawn; only the coarsest must succeed.
            if exponent == _COARSEST:
                raise
            continue
        if max(calibration.means.values()) <= _MAX_MEAN or exponent == _COARSEST:
            return Sums(task, trees, units, calibration)
    raise AssertionError("unreachable")


def depth_of(rows: float, sums: Sums, deepest: int) -> int:
    """Return the depth of trees, which is reduced for small tables because of their noise.

    Args:
        rows: Noisy number of rows.
        sums: Units and noise of the model.
        deepest: The declared depth.
    """
    return max(1, min(deepest, MAX_DEPTH, _levels(rows, sums)))


def leaf_of(splits: list[int], codes: np.ndarray, candidates: Candidates) -> np.ndarray:
    """Return the leaf of each row, by one lookup in a small table per feature of the tree.

    A node that sends a row right excludes the leaves on its left; the row is in the first leaf that
    no node excludes (Lucchese et al., QuickScorer, SIGIR 2015).

    Args:
        splits: Candidate of each inner node in heap order; at most 63.
        codes: Shape (n, features), in column-major order.
        candidates: The candidate splits.

    Returns:
        Leaf numbers from the left, int64, shape (n,).
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


def facts_of(target: np.ndarray, sums: Sums) -> np.ndarray:
    """Return the rows of each class, or the rows and the sum of labels, in units.

    The initial score follows from them.

    Args:
        target: Class indices, or labels scaled to [-1, 1], shape (n,).
        sums: Units and noise of the model.

    Returns:
        int64, shape (2,). A row changes each number by at most ``sums.units``.
    """
    if sums.task == "binary":
        counts = np.bincount(target.astype(np.int64), minlength=2)[:2]
        return np.asarray(counts * sums.units, dtype=np.int64)
    scaled = np.rint(np.clip(target, -1, 1) * sums.units).astype(np.int64)
    return np.array([len(target) * sums.units, scaled.sum()], dtype=np.int64)


def initial_of(facts: np.ndarray, task: Task, units: int) -> tuple[float, float]:
    """Return the noisy number of rows and the initial score.

    Args:
        facts: From `facts_of`, with noise.
        task: ``binary`` or ``regression``.
        units: Units of a row.
    """
    first, second = (float(each) / units for each in facts)
    if task == "binary":
        first, second = max(first, 1.0), max(second, 1.0)
        return first + second, float(np.log(second / first))
    rows = max(first, 1.0)
    return rows, min(max(second / rows, -1.0), 1.0)


def leaf_sums(
    score: np.ndarray, target: np.ndarray, place: np.ndarray, leaves: int, sums: Sums
) -> np.ndarray:
    """Return the sums of gradients of all leaves, followed by the sums of hessians.

    Args:
        score: Score of each row so far, shape (n,).
        target: Class indices, or labels scaled to [-1, 1], shape (n,).
        place: Leaf of each row.
        leaves: Number of leaves.
        sums: Units and noise of the model.

    Returns:
        int64, shape (2 leaves,). A row changes one sum of gradients by at most ``sums.units``, and
        one sum of hessians by at most a quarter of that.
    """
    task, units, hessian_units = sums.task, sums.units, sums.hessian_units
    if task == "binary":
        chance = 1 / (1 + np.exp(-score))
        gradient, hessian = chance - target, chance * (1 - chance)
    else:
        gradient, hessian = score - target, np.ones(len(target))
    steps = np.clip(np.rint(gradient * (units / _CLIP[task])), -units, units)
    weights = np.clip(np.rint(hessian * (hessian_units / _HESSIAN[task])), 0, hessian_units)
    # Sums of integers of 12 bits are exact in floats far beyond any number of rows.
    parts = [np.bincount(place, each, minlength=leaves) for each in (steps, weights)]
    return np.concatenate(parts).astype(np.int64)


def leaf_values(noisy: np.ndarray, sums: Sums, spread: float) -> tuple[int, ...]:
    """Return leaf values from noisy sums.

    Args:
        noisy: Noisy sums of gradients of all leaves, then of hessians; shape (2 leaves,).
        sums: Units and noise of the model.
        spread: Standard deviation of the noise.

    Returns:
        Values in leaf units.
    """
    leaves, task = len(noisy) // 2, sums.task
    gradient, hessian = _CLIP[task] / sums.units, _HESSIAN[task] / sums.hessian_units
    slope = noisy[:leaves] * gradient
    curvature = np.maximum(noisy[leaves:], spread) * hessian
    tau = signal_of(task)
    values = -slope * curvature / (curvature**2 + (spread * gradient / tau) ** 2)
    values = np.clip(values, -_MAX_STEP * tau, _MAX_STEP * tau)
    return tuple(int(value) for value in np.rint(values * LEAF_UNITS))


def signal_of(task: Task) -> float:
    """Return tau in the unit of scores: log odds, or half of the label's range."""
    return _SIGNAL * _CLIP[task] / _HESSIAN[task]


def noise_error(rows: float, sums: Sums, rate: float) -> float | None:
    """Simulate the error of scores that is due to noise, if the table is too small for it.

    The result depends on the row count and declarations. Models are trained on labels without
    signal, whose true score is 0, in trees of one split, each leaf with half of the rows.

    Args:
        rows: Number of rows.
        sums: Units and noise of the model.
        rate: Learning rate.

    Returns:
        Root mean square error in log odds, or halves of the label's range; None if even small trees
        have a signal.
    """
    if _levels(rows, sums) >= 1:
        return None
    task, noise = sums.task, sums.noise
    random = np.random.default_rng(0)  # noqa: TID251  A simulation; nothing is released.
    pair = np.array([0.0, 1.0] if task == "binary" else [0.0, 0.0])
    exact = facts_of(pair, sums) * rows / 2
    facts = random.normal(exact, noise.deviation("facts", noise.honest), (_SIMULATED, 2))
    score = np.array([initial_of(each, task, sums.units)[1] for each in facts])
    spread = noise.deviation("trees", noise.honest)
    model, target = np.repeat(np.arange(_SIMULATED), 2), np.tile(pair, _SIMULATED)
    for _ in range(sums.trees):
        exact = leaf_sums(score[model], target, model, _SIMULATED, sums) * rows / 4
        leaves = leaf_values(random.normal(exact, spread), sums, spread)
        score += np.array(leaves) * (rate / LEAF_UNITS)
    return float(np.sqrt(np.mean(np.square(score))))


def _levels(rows: float, sums: Sums) -> int:
    """Return the number of levels for which rows suffice; below 1 if noise exceeds the signal."""
    noise_of_all = sums.noise.deviation("trees", sums.noise.honest) / sums.units
    signal = rows / noise_of_all * sqrt(sums.trees / 2)
    return round(log2(max(signal, 1.0)) - _ROWS)
