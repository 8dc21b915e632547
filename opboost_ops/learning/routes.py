"""Routed prediction: on which side of every threshold a value lies, and nothing else of it.

FederBoost (Tian et al.) predicts so: who holds a feature answers its comparisons.
"""

import numpy as np


def cells(values: np.ndarray, thresholds: np.ndarray) -> np.ndarray:
    """The outcome of every comparison ``value <= threshold``, as the number that fail.

    Args:
        values: Of one feature, shape (n,).
        thresholds: Strictly increasing, shape (k,).

    Returns:
        Integers 0..k, shape (n,): thresholds below the value.
    """
    return np.searchsorted(thresholds, values, side="left")


def stand_ins(places: np.ndarray, thresholds: np.ndarray) -> np.ndarray:
    """An integer for each cell that compares with every threshold as the cell's values do.

    It is the greatest integer of the cell, a value that a row might have: so it does not matter
    whether trees ask ``<=`` or ``<``.

    Args:
        places: Integers 0..k, shape (n,), as `cells` gives them for integer values.
        thresholds: Strictly increasing, shape (k,), k > 0.

    Returns:
        float64, shape (n,): trees whose comparisons are among the thresholds send it where the
        value itself would go.
    """
    values = np.floor(np.append(thresholds, thresholds[-1] + 1.0))
    return np.asarray(values[places])
