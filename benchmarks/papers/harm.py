"""Where an estimator does harm: paired differences, one-sided tests, Holm's correction."""

from collections.abc import Sequence

import numpy as np
from scipy.stats import ttest_1samp

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
    interval = ttest_1samp(differences, 0).confidence_interval(0.95)
    return float(interval.high - interval.low) / 2


def harm(differences: Sequence[float]) -> float:
    """How likely so low a mean is where nothing is lost: a one-sided paired t test.

    Args:
        differences: Of each seed, to what it is compared with.

    Returns:
        The p-value; 1 for a single seed, and where all differences are the same and not below 0.
    """
    if len(set(differences)) == 1:
        return float(len(differences) == 1 or differences[0] >= 0)
    return float(ttest_1samp(differences, 0, alternative="less").pvalue)


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
