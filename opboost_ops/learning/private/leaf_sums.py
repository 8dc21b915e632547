"""Leaf sums of random trees, and their noise: what every private trainer with a delta shares.

Splits are drawn without a look at any row. A row is in one leaf of each tree, where it moves the
sum of gradients by at most `clip` and the sum of hessians by at most its greatest value, both as
integers. All sums of a model share one Renyi curve, which is turned into epsilon once, so that many
trees with much noise each cost as little as few trees with less.

A leaf's value is made of its two noisy sums, gradients S and hessians H,

    - S H / (H^2 + V / tau^2),

a Newton step where H is large beside the noise on S, whose variance is V, and near 0 elsewhere.

One party adds the noise by itself (`noisy_leaves`), or all parties of a session add theirs
(`private_federboost`).
"""

from dataclasses import dataclass
from functools import lru_cache
from math import log2, sqrt

import numpy as np

from opboost_ops.errors import ConfigError
from opboost_ops.learning.federboost.sum_noise import Release, SumNoise, calibrated
from opboost_ops.learning.metrics import Task
from opboost_ops.learning.private.sensitivity import LEAF_UNITS
from opboost_ops.learning.private.tree import Candidates

#: A leaf is one bit of 64.
DEEPEST = 6

#: Steps of a row where rows are counted by cell: whole rows would round small noise up by much.
COUNT_UNITS = 16

#: Steps of a gradient to its clip for each step of a hessian to its greatest value: hessians get
#: a seventeenth of the divergence, since leaves need them only roughly.
_RATIO = 4

#: Shares of the divergence: of the initial score, and of row counts by cell where there are any.
_FACTS, _LOOKUP = 0.02, 0.08

#: Greatest absolute gradient, of labels in {0, 1} (log loss) and in [-1, 1] (squared loss).
_CLIP: dict[Task, float] = {"binary": 0.5, "regression": 0.25}

#: Greatest hessian of a row.
_HESSIAN: dict[Task, float] = {"binary": 0.25, "regression": 1.0}

#: tau: the step that counts as signal, as a share of clip / greatest hessian.
_SIGNAL = 0.5

#: Greatest step, in tau.
_LONGEST = 4

#: How far the initial score can be off: log odds of one in a hundred, or half of the label's range.
_FARTHEST: dict[Task, float] = {"binary": 4.6, "regression": 1.0}

#: Rows in a leaf, in standard deviations of the noise of one row's whole sum, at the least.
_ROWS = 4.5

#: Steps of a gradient from 0 to its clip are a power of two between these.
_FINEST, _COARSEST = 12, 3

#: Greatest mean of the noise's Poisson numbers: its table then has about a million thresholds.
_MEAN = 2**30


@dataclass(frozen=True)
class Sums:
    """Units of a model's sums, and their noise; it follows from declarations alone.

    Attributes:
        task: ``binary`` or ``regression``.
        trees: How many the model has.
        units: Steps of a gradient from 0 to its clip.
        noise: By phase: ``facts`` for the initial score, ``lookup`` for row counts by cell,
            ``trees`` for leaves.
    """

    task: Task
    trees: int
    units: int
    noise: SumNoise

    @property
    def hessian_units(self) -> int:
        """Steps of a hessian from 0 to its greatest value."""
        return self.units // _RATIO


@lru_cache(maxsize=64)
def sums_of(
    task: Task, trees: int, epsilon: float, delta: float, honest: int = 1, counted: int = 0
) -> Sums:
    """The least noise under which a whole model stays within (epsilon, delta).

    Args:
        task: ``binary`` or ``regression``.
        trees: How many.
        epsilon: For a row that is added or removed.
        delta: Its delta.
        honest: Of how many parties' noise that holds.
        counted: In how many columns rows are counted by cell.

    Raises:
        ConfigError: The noise would be out of range.
    """
    number = task == "regression"
    rest = 1 - _FACTS - (_LOOKUP if counted else 0)
    moved = (2 * COUNT_UNITS * counted, 2 * COUNT_UNITS**2 * counted)
    cells = Release("lookup", 1, moved[0] // 2, moved[1] // 2, _LOOKUP, moved)
    for exponent in range(_FINEST, _COARSEST - 1, -1):
        units = 2**exponent
        hessians = units // _RATIO
        square = units**2 + hessians**2
        # A replaced row changes its class, or its label from one bound to the other; in a tree it
        # stays in its leaf with the opposite gradient, or moves to another one.
        label = (2 * units, (4 if number else 2) * units**2)
        leaves = (2 * (units + hessians), max(4 * units**2 + hessians**2, 2 * square))
        first = 2 if number else 1
        releases = (
            Release("facts", 1, first * units, first * units**2, _FACTS, label),
            *((cells,) if counted else ()),
            Release("trees", trees, units + hessians, square, rest, leaves),
        )
        try:
            calibration = calibrated(releases, honest, epsilon, delta)
        except ConfigError:
            # So fine a step takes more noise than can be drawn; the coarsest one decides.
            if exponent == _COARSEST:
                raise
            continue
        if max(calibration.means.values()) <= _MEAN or exponent == _COARSEST:
            return Sums(task, trees, units, calibration)
    raise AssertionError("unreachable")


def depth_of(rows: float, sums: Sums, deepest: int) -> int:
    """How deep trees are: the noise of a small table would drown the sums of many leaves.

    Args:
        rows: How many there are, as told with noise.
        sums: Of the model.
        deepest: As declared.
    """
    return max(1, min(deepest, DEEPEST, _levels(rows, sums)))


def _levels(rows: float, sums: Sums) -> int:
    """For how many levels rows suffice; none for a table that its noise drowns."""
    noise_of_all = sums.noise.deviation("trees", sums.noise.honest) / sums.units
    signal = rows / noise_of_all * sqrt(sums.trees / 2)
    return round(log2(max(signal, 1.0)) - _ROWS)


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


def facts_of(target: np.ndarray, sums: Sums) -> np.ndarray:
    """Rows of each class, or rows and the sum of labels, in units: what the initial score needs.

    Args:
        target: Class indices, or labels laid on [-1, 1], shape (n,).
        sums: Of the model.

    Returns:
        int64, shape (2,). A row moves it by at most its units, a label by as much once more.
    """
    if sums.task == "binary":
        counts = np.bincount(target.astype(np.int64), minlength=2)[:2]
        return np.asarray(counts * sums.units, dtype=np.int64)
    scaled = np.rint(np.clip(target, -1, 1) * sums.units).astype(np.int64)
    return np.array([len(target) * sums.units, scaled.sum()], dtype=np.int64)


def initial_of(facts: np.ndarray, task: Task, units: int) -> tuple[float, float]:
    """How many rows there are, and the score before all trees, as told with noise.

    Args:
        facts: From `facts_of`, with noise.
        task: ``binary`` or ``regression``.
        units: Of a row.
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
    """Sums of gradients of each leaf, then of hessians: a row moves one of each.

    Args:
        score: Of each row so far, shape (n,).
        target: Class indices, or labels laid on [-1, 1], shape (n,).
        place: Leaf of each row.
        leaves: How many.
        sums: Of the model.

    Returns:
        int64, shape (2 leaves,). A row moves its gradient sum by at most the units, and its hessian
        sum by at most a quarter of that.
    """
    task, units, most = sums.task, sums.units, sums.hessian_units
    if task == "binary":
        chance = 1 / (1 + np.exp(-score))
        gradient, hessian = chance - target, chance * (1 - chance)
    else:
        gradient, hessian = score - target, np.ones(len(target))
    steps = np.clip(np.rint(gradient * (units / _CLIP[task])), -units, units)
    weights = np.clip(np.rint(hessian * (most / _HESSIAN[task])), 0, most)
    # Sums of integers of 12 bits are exact in floats far beyond any number of rows.
    parts = [np.bincount(place, each, minlength=leaves) for each in (steps, weights)]
    return np.concatenate(parts).astype(np.int64)


def leaf_values(noisy: np.ndarray, sums: Sums, spread: float) -> tuple[int, ...]:
    """Leaf values, from noisy sums alone.

    Args:
        noisy: Sums of gradients of each leaf, then of hessians, with noise; shape (2 leaves,).
        sums: What they are worth.
        spread: Standard deviation of the noise.

    Returns:
        In leaf units.
    """
    leaves, task = len(noisy) // 2, sums.task
    gradient, hessian = _CLIP[task] / sums.units, _HESSIAN[task] / sums.hessian_units
    slope = noisy[:leaves] * gradient
    curvature = np.maximum(noisy[leaves:], spread) * hessian
    tau = signal_of(task)
    values = -slope * curvature / (curvature**2 + (spread * gradient / tau) ** 2)
    values = np.clip(values, -_LONGEST * tau, _LONGEST * tau)
    return tuple(int(value) for value in np.rint(values * LEAF_UNITS))


def signal_of(task: Task) -> float:
    """tau, in scores: of log odds, or of half of the label's range."""
    return _SIGNAL * _CLIP[task] / _HESSIAN[task]


def noise_error(rows: float, sums: Sums, rate: float) -> float | None:
    """How far noise alone moves a score, about, where the table is too small for the noise.

    It follows from the row count and declarations: the standard deviation of the noise of all
    leaves in trees of one split, each leaf with half of the rows, and of what is left of the
    initial score's.

    Args:
        rows: How many there are.
        sums: Of the model.
        rate: Learning rate.

    Returns:
        In log odds, or in halves of the label's range; None where even small trees have a signal.
    """
    task, trees = sums.task, sums.trees
    if _levels(rows, sums) >= 1:
        return None
    spread = sums.noise.deviation("trees", sums.noise.honest) / sums.units
    facts = sums.noise.deviation("facts", sums.noise.honest) / sums.units
    first = (2 * sqrt(2) if task == "binary" else 1.0) * facts / max(rows, 1.0)
    gradient, tau = spread * _CLIP[task], signal_of(task)
    # A hessian below its noise is taken for its noise.
    hessian = max(rows / 2, spread * _RATIO) * _HESSIAN[task]
    trust = hessian**2 + (gradient / tau) ** 2
    leaf = gradient * hessian / trust
    # Trees correct the initial score by as much as they see of it.
    left = (1 - rate * rows / 2 * _HESSIAN[task] * hessian / trust) ** trees
    return sqrt((min(first, _FARTHEST[task]) * left) ** 2 + trees * (rate * leaf) ** 2)
