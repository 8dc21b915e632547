"""Poisson laws as integer thresholds: what a sampler compares uniform bits with."""

from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate, chain

import numpy as np

from opboost_ops.errors import ConfigError

#: Fixed point of the weights, in bits: they are followed outwards until they are below one unit,
#: some 15 standard deviations from the mean.
_WEIGHT = 160

#: Bits of a threshold.
BITS = 128

#: Greatest mean: up to here the law is told to within `DISTANCE`, and its table fits in memory.
GREATEST = 2**34

#: Bound on the total variation between what is drawn and Poisson's law: floors lose less than
#: 450 mean units of at least 2^160 sqrt(mean) in all, tails less, thresholds 30 sqrt(mean) 2^-128.
DISTANCE = 2.0**-100


@dataclass(frozen=True, eq=False)
class Thresholds:
    """A Poisson law: a uniform number of 128 bits gives `first` plus the thresholds it reaches.

    Attributes:
        first: The least integer that is drawn.
        high: The upper 64 bits of each threshold, rising, uint64.
        low: The lower 64 bits.
    """

    first: int
    high: np.ndarray
    low: np.ndarray


@lru_cache(maxsize=16)
def thresholds(mean: int) -> Thresholds:
    """The law of a mean, in integer arithmetic throughout.

    Args:
        mean: A positive integer.

    Raises:
        ConfigError: It is too large.
    """
    if not 1 <= mean <= GREATEST:
        raise ConfigError(
            "The noise that this epsilon takes is out of range.", "Declare a greater epsilon."
        )
    below, weight, at = [], 1 << _WEIGHT, mean
    while at > 0 and (weight := weight * at // mean):
        at -= 1
        below.append(weight)
    above, weight, at = [], 1 << _WEIGHT, mean
    while weight := weight * mean // (at := at + 1):
        above.append(weight)
    sums = list(accumulate(chain(reversed(below), [1 << _WEIGHT], above)))
    total = sums[-1]
    # The last threshold would be 2^128 itself, which no number reaches.
    scaled = [(each << BITS) // total for each in sums[:-1]]
    mask = (1 << 64) - 1
    return Thresholds(
        mean - len(below),
        np.array([each >> 64 for each in scaled], dtype=np.uint64),
        np.array([each & mask for each in scaled], dtype=np.uint64),
    )
