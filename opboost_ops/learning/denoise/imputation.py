"""Whole rows drawn from the law of what lies behind them."""

import numpy as np

from opboost_ops.learning.denoise.classes import Classes
from opboost_ops.learning.denoise.draws import Draws
from opboost_ops.learning.denoise.latent_rows import BLOCK, LatentRows
from opboost_ops.learning.denoise.rows import Rows


def impute(classes: Classes, rows: Rows, draws: Draws, draw: int) -> dict[str, np.ndarray]:
    """Draw the values behind all released cells, those of a row together.

    First a class z from Pr[z | y, w, l], then each value from theta_z(x) K(x, y), in blocks.

    Args:
        classes: Of these rows.
        rows: All of them.
        draws: For the draws.
        draw: Which of several imputations it is.

    Returns:
        Values from 0, int32, shape (n,), by column.
    """
    widest = max([len(classes.pi), *(len(law) for law in rows.laws.values())])
    size = max(1, BLOCK // (4 * widest))
    found = {name: np.empty(len(rows), dtype=np.int32) for name in rows.noisy}
    for begin in range(0, len(rows), size):
        end = min(begin + size, len(rows))
        block = rows.at(slice(begin, end))
        uniform = draws.uniform(f"{draw}/class", begin, end)
        z = inverted(LatentRows(block, classes).responsibilities(classes).T, uniform)
        if classes.fixed:
            z += block.level * classes.possible
        for name, outputs in block.noisy.items():
            behind = classes.theta[name][:, z] * rows.laws[name][:, outputs]
            place = draws.uniform(f"{draw}/{name}", begin, end)
            found[name][begin:end] = inverted(behind, place)
    return found


def inverted(weights: np.ndarray, uniform: np.ndarray) -> np.ndarray:
    """One index a column, by the inverse of its distribution function.

    Args:
        weights: None negative, some positive in each column, shape (k, n).
        uniform: A number in (0, 1) for each column, shape (n,).

    Returns:
        int64, shape (n,).
    """
    steps = weights.cumsum(axis=0)
    below = uniform * steps[-1] > steps
    return np.asarray(np.minimum(below.sum(axis=0), len(weights) - 1))
