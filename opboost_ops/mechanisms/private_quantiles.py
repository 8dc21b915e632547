"""Differentially private quantiles: the inner edges of a column's cells.

The algorithm is that of Kaplan, Schnapp and Stemmer, "Differentially Private Approximate Quantiles"
(ICML 2022): it draws the middle edge, then recurses into both parts. Each draw is an exponential
mechanism over a public grid, with integer weights and exact sampling. For an edge with l cells
below and r above, a grid point with b of the part's people below and a above is drawn with

    Pr[point] proportional to w(s - least s),    s = floor(|b r - a l| / max(l, r)).

`weights` is the table w: e^(-rate k) up to rounding, and constant from its last entry on. Adding or
removing a person changes s by at most 1, in one part per level of the recursion. Replacing a person
changes s by 2 in one part, or by 1 in two. Up to a factor that all points share, a weight is the
maximum of e^(-rate s) and a constant times e^(-rate least s), so its logarithm changes by at most
the same amount, and so does that of the normalising sum. With D the largest rounding error of a
logarithm, the loss is at most

    levels x (4 rate + 8 D),

which `loss` computes from the integer table. If many values are equal, several edges lie between
this value and the next one, so frequent and rare values are many cells apart.
"""

import math
from collections.abc import Callable
from decimal import Context, Decimal, localcontext
from functools import lru_cache

import numpy as np

from opboost_ops.errors import ConfigError

#: Maximum number of cells: leaves a few grid points per cell.
MOST_CELLS = 256

#: Number of grid points at equal distances, and at equal ratios.
_EVEN_POINTS, _RATIO_POINTS = 128, 895

#: The smallest weight, and log2 of the greatest ratio of another weight to it. The weights of a
#: whole grid add up to less than 2^63.
_MIN_WEIGHT, _RANGE_BITS = 1 << 28, 24

#: Fraction bits of the table while it is computed.
_FRACTION_BITS = 128

#: Accepted range of epsilon.
LEAST_EPSILON, MOST_EPSILON = 0.001, 10

#: Draws a uniform integer below a bound.
Uniform = Callable[[int], int]


def grid(bounds: tuple[float, float]) -> np.ndarray:
    """Return the candidate edges: public points between the bounds, float64, ascending.

    Some points are equally spaced; most are equally spaced in log1p of the distance from the lower
    bound, so that a long-tailed distribution still has points among most of its people. Points are
    rounded for readability.

    Args:
        bounds: Declared bounds of the feature.
    """
    lower, upper = bounds
    span = upper - lower
    even = np.arange(1, _EVEN_POINTS + 1) / (_EVEN_POINTS + 1) * span
    ratios = np.expm1(np.arange(1, _RATIO_POINTS + 1) / (_RATIO_POINTS + 1) * np.log1p(span))
    steps = np.concatenate([even, ratios])
    decimals = 1 + math.ceil(-math.log10(float(steps.min())))
    points = np.unique(np.round(lower + steps, decimals))
    return np.asarray(points[(points > lower) & (points < upper)])


@lru_cache(maxsize=8)
def weights(cells: int, epsilon: float) -> np.ndarray:
    """Return the table w, int64: each entry is about e^(-epsilon / (4 levels)) of the previous one.

    Args:
        cells: Number of cells.
        epsilon: Bound on the loss.

    Raises:
        ConfigError: An argument is out of range.
    """
    if not 2 <= cells <= MOST_CELLS:
        raise ConfigError(f"Private edges need 2 to {MOST_CELLS} cells, not {cells}.")
    if not LEAST_EPSILON <= epsilon <= MOST_EPSILON:
        raise ConfigError(
            f"The epsilon of private edges must be {LEAST_EPSILON} to {MOST_EPSILON}, not "
            f"{epsilon:g}."
        )
    return _geometric_table(_rate(cells, epsilon))


def _rate(cells: int, epsilon: float) -> float:
    # Slightly below the even share of epsilon, to leave room for rounding errors.
    return epsilon * (1 - 2.0**-12) / (4 * _levels(cells))


def _levels(cells: int) -> int:
    """Return the depth of the recursion that draws all edges."""
    return (cells - 1).bit_length()


def _geometric_table(rate: float) -> np.ndarray:
    """Return integers that decrease by the factor e^-rate and end with the smallest weight."""
    with localcontext(Context(prec=60)):
        factor = int(Decimal(rate).exp() * (1 << _FRACTION_BITS))
    length = math.floor(_RANGE_BITS * math.log(2) / rate)
    # Integer arithmetic only: the table must be identical on every machine.
    value, entries = _MIN_WEIGHT << _FRACTION_BITS, [_MIN_WEIGHT]
    for _ in range(length):
        value = value * factor >> _FRACTION_BITS
        entries.append(value >> _FRACTION_BITS)
    table = np.array(entries[::-1], dtype=np.int64)
    table.flags.writeable = False
    return table


@lru_cache(maxsize=64)
def loss(cells: int, epsilon: float) -> float:
    """Return the loss of all edges for adding, removing or replacing a person, rounded up.

    Args:
        cells: Number of cells.
        epsilon: Declared bound; the loss is at most this.
    """
    table, rate = weights(cells, epsilon), _rate(cells, epsilon)
    exact = math.log(table[0]) - rate * np.arange(len(table))
    # Integers below 2^53 are exact as floats; the error of a logarithm below 64 is under 2^-46.
    rounding = float(np.abs(np.log(table) - exact).max()) + 2.0**-44
    bound = float(_levels(cells) * (4 * rate + 8 * rounding)) * (1 + 2.0**-50)
    assert bound <= epsilon
    return bound


def people_off(cells: int, epsilon: float) -> float:
    """Return the typical rank error of an edge, in people: where the weight has fallen to 1 / e.

    Args:
        cells: Number of cells.
        epsilon: Declared bound on the loss.
    """
    return 4 * _levels(cells) / epsilon


def draw(
    below: np.ndarray, people: int, table: np.ndarray, cells: int, uniform: Uniform
) -> tuple[int, ...]:
    """Draw all edges, as ascending indices into the grid.

    Args:
        below: Number of values at or below each grid point, non-decreasing, shape (k,).
        people: Number of values.
        table: The table from `weights`.
        cells: Number of cells; at most k + 1.
        uniform: Draws a uniform integer below a bound.
    """
    counts = np.asarray(below, dtype=np.int64)
    places: list[int] = []

    def divide(edges: int, low: int, high: int) -> None:
        """Draw a number of edges among the grid points low..high - 1."""
        if not edges:
            return
        left = edges // 2
        right = edges - 1 - left
        begin = int(counts[low - 1]) if low else 0
        end = int(counts[high]) if high < len(counts) else people
        # Leave one grid point for each edge of both parts.
        points = counts[low + left : high - right]
        away = np.abs((points - begin) * (right + 1) - (end - points) * (left + 1))
        steps = away // (max(left, right) + 1)
        sums = np.cumsum(table[np.minimum(steps - steps.min(), len(table) - 1)])
        at = low + left + int(np.searchsorted(sums, uniform(int(sums[-1])), side="right"))
        divide(left, low, at)
        places.append(at)
        divide(right, at + 1, high)

    divide(cells - 1, 0, len(counts))
    return tuple(places)
