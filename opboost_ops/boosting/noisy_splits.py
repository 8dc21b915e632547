"""Splits of private horizontal boosting: decided by sums with noise, in integers of a scale."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from opboost_ops.boosting import histogram
from opboost_ops.boosting.histogram import Growth, Leaf, Split

#: Steps of a gradient from 0 to 1, and of a hessian from 0 to its greatest value.
GRADIENT_UNITS, HESSIAN_UNITS = 256, 128

#: Greatest absolute leaf value before it is shrunk.
_CLIP = 2.0

#: A child's hessians are at least so many standard deviations of their noise.
_SURE = 2.0


@dataclass(frozen=True)
class Scale:
    """What the integers of a sum are worth.

    Attributes:
        hessian: Of one hessian unit.
        spread: Standard deviation of the noise of a sum of gradients, then of hessians.
    """

    hessian: float
    spread: tuple[float, float]


def decide_noisy(
    sums: np.ndarray,
    widths: Sequence[int],
    keeps: Sequence[bool],
    growth: Growth,
    scale: Scale,
    mean: float,
) -> tuple[list[Leaf], list[Split | None]]:
    """The best split of each open node, by noisy sums; all of it follows from them.

    Each column's bins add up to the same node: the sums over columns are averaged, by the inverse
    of their noise, and each column's bins are moved so that they add up to the average.

    Args:
        sums: By node, column and bin: gradients, hessians, in units; flat.
        widths: Bins of each column.
        keeps: Whether a column's last bin holds rows whose value is missing.
        growth: How trees grow.
        scale: What units are worth, and how noisy.
        mean: Of a row's hessian, by which rows are told from hessians.

    Returns:
        What is known of each open node, and its split; None where none is worth its noise.
    """
    table = sums.reshape(-1, sum(widths), 2) * np.array([1 / GRADIENT_UNITS, scale.hessian])
    cuts = np.cumsum(widths)[:-1]
    parts = np.split(table, cuts, axis=1)
    weights = np.array([1 / width for width in widths])
    totals = np.stack([part.sum(axis=1) for part in parts])
    whole = np.tensordot(weights / weights.sum(), totals, axes=1)
    even = [
        part + ((whole - own) / width)[:, None]
        for part, own, width in zip(parts, totals, widths, strict=True)
    ]
    left = histogram.left_sides(np.concatenate(even, axis=1), widths, keeps)
    right = whole[:, None] - left
    noisy = scale.spread[1] * max(widths) ** 0.5
    least = max(growth.least_node * mean, _SURE * noisy)
    known = replace(growth, penalty=growth.penalty + noisy)
    gains = _quality(left, known) + _quality(right, known) - _quality(whole[:, None], known)
    gains[(np.minimum(left[..., 1], right[..., 1]) < least) | ~(gains > 0)] = -np.inf
    splits = histogram.best_splits(gains, left, right, widths, lambda s: _leaf(s, known, mean))
    return [_leaf(total, known, mean) for total in whole], splits


def _quality(sums: np.ndarray, growth: Growth) -> np.ndarray:
    return np.asarray(sums[..., 0] ** 2 / (np.maximum(sums[..., 1], 0.0) + growth.penalty))


def _leaf(sums: np.ndarray, growth: Growth, mean: float) -> Leaf:
    gradient, hessian = float(sums[0]), max(float(sums[1]), 0.0)
    weight = hessian + growth.penalty
    value = -gradient / weight if weight > 0 else 0.0
    # What lies beyond the clip is noise for sure; clipping it costs nothing.
    value = max(-_CLIP, min(_CLIP, value)) * growth.learning_rate
    return Leaf(value=value, hessian=hessian, rows=max(1, round(hessian / mean)))
