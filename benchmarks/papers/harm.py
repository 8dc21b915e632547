"""Where an estimator does harm: paired differences, one-sided tests, Holm's correction."""

from collections.abc import Sequence
from math import sqrt
from statistics import fmean, stdev

import numpy as np
from scipy.stats import t

#: Of all settings together, how often one may be named by chance.
LEVEL = 0.05


def half_width(differences: Sequence[float]) -> float | None:
    """Half the width of a mean's 95 % interval, by Student's law.

    Args:
        differences: Of each seed.

    Returns:
        None for a single seed, which has no interval.
    """
    if len(differences) < 2:
        return None
    quantile = float(t.ppf(0.975, len(differences) - 1))
    return quantile * stdev(differences) / sqrt(len(differences))


def harm(differences: Sequence[float]) -> float:
    """How likely so low a mean is where nothing is lost: a one-sided paired t test.

    Args:
        differences: Of each seed, to what it is compared with.

    Returns:
        The p-value; 1 for a single seed, and where all differences are the same and not below 0.
    """
    mean = fmean(differences)
    if len(differences) < 2:
        return 1.0
    spread = stdev(differences)
    if spread == 0:
        return 0.0 if mean < 0 else 1.0
    return float(t.cdf(mean / (spread / sqrt(len(differences))), len(differences) - 1))


def holm(values: Sequence[float], level: float = LEVEL) -> list[bool]:
    """Which hypotheses fall when several are tested at once.

    From the least p-value on, the i-th of m is held against level / (m - i), from 0; the first that
    stands lets all further ones stand (Holm, "A simple sequentially rejective multiple test
    procedure", 1979).

    Args:
        values: P-values.
        level: Of all tests together.
    """
    order = np.argsort(values, kind="stable")
    fallen = [False] * len(values)
    for i, place in enumerate(order):
        if values[place] > level / (len(values) - i):
            break
        fallen[place] = True
    return fallen
