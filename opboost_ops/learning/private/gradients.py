"""Gradients of the square loss as integers, and the filter that keeps large ones out."""

import numpy as np

from opboost_ops.learning.private.sensitivity import GRADIENT_UNITS


def scaled(label: np.ndarray, bounds: tuple[float, float]) -> np.ndarray:
    """Labels laid on [-1, 1] by declared bounds; what lies outside is clipped.

    Args:
        label: Shape (n,).
        bounds: Declared, never read off the labels.
    """
    lower, upper = bounds
    share = (np.asarray(label, dtype=np.float64) - lower) / (upper - lower)
    return np.asarray(np.clip(2 * share - 1, -1.0, 1.0))


def outside(label: np.ndarray, bounds: tuple[float, float] | None) -> int:
    """How many labels lie outside declared bounds, which is for the party's own eyes alone.

    Args:
        label: Shape (n,).
        bounds: Declared; None for classes.
    """
    if bounds is None:
        return 0
    return int(((label < bounds[0]) | (label > bounds[1])).sum())


def gradients(score: np.ndarray, target: np.ndarray) -> np.ndarray:
    """Each row's own gradient, score - label, to the nearest unit.

    Args:
        score: What the committed trees say, shape (n,).
        target: Scaled labels, shape (n,).

    Returns:
        int64, shape (n,).
    """
    # Beyond twice the greatest gradient that may take part, the number itself does not matter.
    gradient = np.clip(score - target, -2.0, 2.0)
    return np.asarray(np.rint(gradient * GRADIENT_UNITS), dtype=np.int64)


def taking_part(found: np.ndarray) -> np.ndarray:
    """Gradient-based data filtering: a row with |g| > g_l* sits this tree out.

    A filter and not a clip: such a row has no influence on this tree at all. It decides about each
    row by that row alone.

    Args:
        found: From `gradients`.

    Returns:
        bool, shape (n,).
    """
    return np.asarray(np.abs(found) <= GRADIENT_UNITS)
