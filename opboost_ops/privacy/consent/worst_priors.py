"""The values between which a receiver guesses best: the worst prior over any two, and any three.

A guess gains after - before, where

    before  max over x of prior(x)
    after   sum over y of max over x of prior(x) Pr[y | x]

As long as one value stays the likeliest, `before` is linear in the prior and `after` is convex, so
the gain is greatest at a corner of these priors: an even one over some of the values. The worst
prior over any two values is thus an even one over two, and over any three an even one over three
or two. Under it `after` is, over k values, the sum over y of the largest Pr[y | x], divided by k.

Of three values a, b, c this sum is at most 1 + TV(a, b) + TV(b, c), whichever of them is in the
middle; by that bound few triples of a large domain are looked at.
"""

from collections.abc import Sequence
from fractions import Fraction

import numpy as np

#: Differences of less are rounding.
_ROUNDING = 1e-12

#: Values of a large domain between which planning compares.
_MOST = 256


def worst_values(law: np.ndarray) -> tuple[tuple[int, ...], ...]:
    """The two values, and the three, among which a guess is best; none of more than there are.

    Args:
        law: Pr[y | x], shape (values, outputs), of at least two values.
    """
    distances = _distances(law)
    a, b = divmod(int(distances.argmax()), len(law))
    if len(law) < 3:
        return ((a, b),)
    best, triple = _with_third(law, a, b)
    for bound, first, second in _promising(distances, best):
        if bound <= best + _ROUNDING:
            break
        total, candidate = _with_third(law, first, second)
        if total > best:
            best, triple = total, candidate
    return (a, b), triple


def of_two(law: np.ndarray) -> float:
    """Success of the best guess between two values; of a large domain, between `_MOST` of them.

    Args:
        law: Pr[y | x], shape (values, outputs), of at least two values.
    """
    some = np.linspace(0, len(law) - 1, min(len(law), _MOST)).round().astype(int)
    return float(_distances(law[some]).max() + 1) / 2


def even_success(counts: Sequence[Sequence[int]], total: int) -> float:
    """Success of the best guess under the even prior over some values.

    Args:
        counts: Of each of the values, its row of the channel.
        total: The sum of each row.
    """
    return float(Fraction(sum(map(max, zip(*counts, strict=True))), total * len(counts)))


def _distances(law: np.ndarray) -> np.ndarray:
    """Total variation between values, shape (values, values)."""
    distances = np.zeros((len(law), len(law)))
    for first, row in enumerate(law[:-1]):
        apart = np.maximum(row, law[first + 1 :]).sum(axis=1) - 1
        distances[first, first + 1 :] = distances[first + 1 :, first] = apart
    return distances


def _with_third(law: np.ndarray, first: int, second: int) -> tuple[float, tuple[int, int, int]]:
    """The best third value for a pair, and the triple's sum of largest probabilities."""
    sums = np.maximum(np.maximum(law[first], law[second]), law).sum(axis=1)
    sums[[first, second]] = 0
    third = int(sums.argmax())
    return float(sums[third]), (first, second, third)


def _promising(distances: np.ndarray, best: float) -> list[tuple[float, int, int]]:
    """Pairs that are the farthest ones of a triple whose bound is above, with it, falling."""
    pairs = []
    for first, row in enumerate(distances):
        # Two of three distances add up to more than best - 1, so the largest is above its half.
        seconds = first + np.flatnonzero(row[first:] > (best - 1) / 2)
        rows, apart = distances[seconds], row[seconds][:, None]
        sums = np.where((rows <= apart) & (row <= apart), row + rows, 0)
        bounds = 1 + sums.max(axis=1, initial=0)
        for bound, second in zip(bounds.tolist(), seconds.tolist(), strict=True):
            if bound > best + _ROUNDING:
                pairs.append((bound, first, second))
    return sorted(pairs, reverse=True)
