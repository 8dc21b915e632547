"""Rows that fit a model's trees: TimberStrike, and the same with noisy leaves.

Every row begins as a label and a box around all values. Tree after tree each row is given a leaf
whose box meets its own, so that the sums of gradients and hessians of each leaf come out: with the
chances p[row, leaf] that are nearest to what the attacker's own rows suggest,

    minimise sum p log(p / q)  with  sum over rows of p[., leaf] (g, h) = the leaf's sums,

by its dual, which has two numbers for each leaf. Without sums a leaf's value, -G / H, is what has
to come out; noise of a known deviation d adds d^2 / 2 times the squares of the two numbers.
TimberStrike (arXiv 2506.07605) divides rows among leaves by an integer program with the same sums,
and arXiv 2502.05307 looks for the likeliest rows given noisy leaves.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.optimize import linear_sum_assignment, minimize

#: A value counts as found within this share of its column's standard deviation (TimberStrike's).
TOLERANCE = 0.319

#: What a sum may be off where it has no noise.
EXACT = 0.01


@dataclass(frozen=True)
class Leaf:
    """A leaf as it is disclosed.

    Attributes:
        low, high: Its box, by column, both ends within.
        value: Its weight in the score.
        sums: Gradients and hessians of its rows; None where they stay secret.
    """

    low: np.ndarray
    high: np.ndarray
    value: float
    sums: tuple[float, float] | None


@dataclass
class Rows:
    """Rows as far as they are known.

    Attributes:
        low, high: Their boxes, shape (rows, columns).
        label: 0 or 1.
        score: Of the model so far.
    """

    low: np.ndarray
    high: np.ndarray
    label: np.ndarray
    score: np.ndarray


def reconstruct(
    trees: Sequence[Sequence[Leaf]],
    start: tuple[int, int, float],
    own: np.ndarray,
    rate: float,
    deviation: float = EXACT,
    seed: int = 0,
) -> Rows:
    """Rows that fit the trees.

    Args:
        trees: Their leaves.
        start: Rows of each label, and the score before the first tree.
        own: Rows of the attacker's, which suggest what values are common, shape (rows, columns).
        rate: Learning rate, by which values were shrunk.
        deviation: Of a leaf's sum of gradients.
        seed: Of the draw.
    """
    negative, positive, score = start
    count, width = negative + positive, own.shape[1]
    rows = Rows(
        np.full((count, width), -np.inf),
        np.full((count, width), np.inf),
        np.repeat([0, 1], [negative, positive]),
        np.full(count, score),
    )
    ordered = np.sort(own, axis=0)
    random = np.random.default_rng(seed)
    for leaves in trees:
        _add(rows, leaves, ordered, rate, deviation, random)
    return rows


def _add(
    rows: Rows,
    leaves: Sequence[Leaf],
    ordered: np.ndarray,
    rate: float,
    deviation: float,
    random: np.random.Generator,
) -> None:
    low = np.stack([np.maximum(rows.low, leaf.low) for leaf in leaves], axis=1)
    high = np.stack([np.minimum(rows.high, leaf.high) for leaf in leaves], axis=1)
    prior = np.log(_shares(low, high, ordered))
    chance = 1 / (1 + np.exp(-rows.score))
    pair = np.stack([chance - rows.label, chance * (1 - chance)])
    if leaves[0].sums is None:
        steps = np.array([leaf.value for leaf in leaves]) / rate
        moments = (pair[0][:, None] + steps * pair[1][:, None])[None]
        target = np.zeros((1, len(leaves)))
    else:
        moments = np.repeat(pair[:, :, None], len(leaves), axis=2)
        target = np.array([leaf.sums for leaf in leaves], dtype=float).T
    chances = _nearest(prior, moments, target, deviation)
    # One point of an even sequence for each row, in the order of scores: sums come out.
    place = np.empty(len(prior), dtype=np.int64)
    place[np.lexsort((random.random(len(prior)), rows.label, rows.score))] = np.arange(len(prior))
    point = (random.random() + place * 0.6180339887498949) % 1
    taken = (np.cumsum(chances, axis=1) < point[:, None]).sum(axis=1).clip(max=len(leaves) - 1)
    at = np.arange(len(prior))
    rows.low, rows.high = low[at, taken], high[at, taken]
    rows.score = rows.score + np.array([leaf.value for leaf in leaves])[taken]


def _shares(low: np.ndarray, high: np.ndarray, ordered: np.ndarray) -> np.ndarray:
    """Shares of the attacker's rows in boxes, column by column; hardly any where none is."""
    shares = np.ones(low.shape[:2])
    for column in range(ordered.shape[1]):
        values = ordered[:, column]
        first = np.searchsorted(values, low[..., column], side="left")
        last = np.searchsorted(values, high[..., column], side="right")
        shares *= (last - first + 0.1) / len(values)
    return np.where((low <= high).all(axis=2), shares, 1e-300)


def _nearest(
    prior: np.ndarray, moments: np.ndarray, target: np.ndarray, deviation: float
) -> np.ndarray:
    """Chances of leaves by row, nearest to a prior, with given sums.

    Args:
        prior: Logarithms, shape (rows, leaves).
        moments: What is added up, shape (sums, rows, leaves).
        target: The sums, shape (sums, leaves).
        deviation: Of a sum.
    """

    def chances(dual: np.ndarray) -> tuple[float, np.ndarray]:
        weight = prior + np.einsum("srl,sl->rl", moments, dual.reshape(target.shape))
        top = weight.max(axis=1, keepdims=True)
        shares = np.exp(weight - top)
        total = shares.sum(axis=1, keepdims=True)
        return float((top + np.log(total)).sum()), shares / total

    def loss(dual: np.ndarray) -> tuple[float, np.ndarray]:
        total, shares = chances(dual)
        slope = np.einsum("srl,rl->sl", moments, shares) - target
        value = total - float((dual.reshape(target.shape) * target).sum())
        return value + deviation**2 / 2 * float(dual @ dual), slope.ravel() + deviation**2 * dual

    found = minimize(loss, np.zeros(target.size), jac=True, method="L-BFGS-B")
    return chances(found.x)[1]


def rows_of(rows: Rows, own: np.ndarray, seed: int) -> np.ndarray:
    """Values in the boxes that the attacker's own rows have there, shape (rows, columns).

    Args:
        rows: From `reconstruct`.
        own: The attacker's own rows, shape (rows, columns).
        seed: Of the draw.
    """
    random = np.random.default_rng(seed)
    values = np.empty(rows.low.shape)
    for column, ordered in enumerate(np.sort(own, axis=0).T):
        low, high = rows.low[:, column], rows.high[:, column]
        first = np.searchsorted(ordered, low, side="left")
        last = np.searchsorted(ordered, high, side="right")
        drawn = first + np.floor(random.random(len(low)) * (last - first)).astype(np.int64)
        there = ordered[drawn.clip(max=len(ordered) - 1)]
        inside = np.clip([low, high], ordered[0], ordered[-1]).mean(axis=0)
        values[:, column] = np.where(first < last, there, inside)
    return values


def matched(true: np.ndarray, made: np.ndarray, most: int, seed: int) -> float:
    """TimberStrike's measure: percent of values found, after the best matching of rows.

    Args:
        true: Rows attacked.
        made: Rows that are said to be them.
        most: Of how many rows, drawn of each.
        seed: Of the draw.
    """
    random = np.random.default_rng(seed)
    most = min(most, len(true), len(made))
    first, second = (rows[random.permutation(len(rows))[:most]] for rows in (true, made))
    near = TOLERANCE * true.std(axis=0)
    right = np.zeros((most, most), dtype=np.float32)
    for column in range(true.shape[1]):
        right += np.abs(first[:, column, None] - second[None, :, column]) <= near[column]
    rows, columns = linear_sum_assignment(-right)
    return float(100 * right[rows, columns].mean() / true.shape[1])
