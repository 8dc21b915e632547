"""Differentially private quantiles: all inner edges of a column's cells.

Kaplan, Schnapp and Stemmer, "Differentially Private Approximate Quantiles" (ICML 2022): the middle
edge first, then the middle ones of both parts, and so on; each by the exponential mechanism, here
over a public grid, with integer weights and exact sampling. Where l cells are to lie below an edge
and r above it, a point of the grid with b of the part's people below it and a above is drawn with

    Pr[point] proportional to w(s - least s),    s = floor(|b r - a l| / max(l, r)).

`weights` is that table: e^(-rate k) but for rounding, and constant from its last entry on. Somebody
who is added or removed moves s by at most 1, in one part of each level of the recursion. Somebody
who is replaced moves it by 2 in one part, or by 1 in two. Up to a factor that all points share, a
weight is the larger of e^(-rate s) and of a constant times e^(-rate least s), and so it moves by as
much; the normalising sum moves likewise. With D the largest error of a logarithm by rounding, the
loss is at most

    levels x (4 rate + 8 D),

which `loss` computes from the integers themselves. Where many values are equal, several edges lie
between these and the next value: what is common is then many steps from what is rare.
"""

import math
from collections.abc import Callable
from decimal import Context, Decimal, localcontext
from functools import lru_cache

import numpy as np

from opboost_ops.errors import ConfigError

#: Most cells: a few points of the grid for each.
MOST_CELLS = 256

#: So many points of the grid lie at equal distances, and so many at equal ratios.
_EVEN, _RATIOS = 128, 895

#: The least weight, and by how many powers of two the greatest is larger.
_LEAST, _RANGE = 1 << 28, 24

#: Bits after the point of the table while it is made.
_FINE = 128

#: What may be asked for.
LEAST_EPSILON, MOST_EPSILON = 0.001, 10

#: Draws an integer below a bound, each as likely as any other.
Uniform = Callable[[int], int]


def grid(bounds: tuple[float, float]) -> np.ndarray:
    """Where edges may lie: public points between the bounds, float64, rising.

    Some at equal distances, most at equal distances of log1p of the way from the lower bound: a
    long tail does not leave all people between two points. Rounded for people.

    Args:
        bounds: The feature's declared ones.
    """
    lower, upper = bounds
    span = upper - lower
    even = np.arange(1, _EVEN + 1) / (_EVEN + 1) * span
    ratios = np.expm1(np.arange(1, _RATIOS + 1) / (_RATIOS + 1) * np.log1p(span))
    steps = np.concatenate([even, ratios])
    decimals = 1 + math.ceil(-math.log10(float(steps.min())))
    points = np.unique(np.round(lower + steps, decimals))
    return np.asarray(points[(points > lower) & (points < upper)])


@lru_cache(maxsize=8)
def weights(cells: int, epsilon: float) -> np.ndarray:
    """The table w, falling by e^(-epsilon / (4 levels)) an entry, a little less, int64.

    Args:
        cells: How many cells the edges make.
        epsilon: Bound on the loss.

    Raises:
        ConfigError: Either is out of range.
    """
    if not 2 <= cells <= MOST_CELLS:
        raise ConfigError(f"Private edges make 2 to {MOST_CELLS} cells, not {cells}.")
    if not LEAST_EPSILON <= epsilon <= MOST_EPSILON:
        raise ConfigError(
            f"The epsilon of private edges is {LEAST_EPSILON} to {MOST_EPSILON}, not {epsilon:g}."
        )
    return _falling(_rate(cells, epsilon))


def _rate(cells: int, epsilon: float) -> float:
    # A little less than what divides evenly: rounding costs something, too.
    return epsilon * (1 - 2.0**-12) / (4 * _levels(cells))


def _levels(cells: int) -> int:
    """How often parts are divided until every edge is there."""
    return (cells - 1).bit_length()


def _falling(rate: float) -> np.ndarray:
    """Integers that fall by e^-rate, the last one the least weight."""
    with localcontext(Context(prec=60)):
        factor = int(Decimal(rate).exp() * (1 << _FINE))
    length = math.ceil(_RANGE * math.log(2) / rate)
    # By integers alone: on every machine the same table gives the same edges for the same people.
    value, entries = _LEAST << _FINE, [_LEAST]
    for _ in range(length):
        value = value * factor >> _FINE
        entries.append(value >> _FINE)
    table = np.array(entries[::-1], dtype=np.int64)
    table.flags.writeable = False
    return table


@lru_cache(maxsize=64)
def loss(cells: int, epsilon: float) -> float:
    """The loss of edges for a person who is added, removed or replaced, rounded up.

    Args:
        cells: How many cells they make.
        epsilon: As declared; the loss is at most that.
    """
    table, rate = weights(cells, epsilon), _rate(cells, epsilon)
    exact = math.log(table[0]) - rate * np.arange(len(table))
    # Integers below 2^53 are floats; a logarithm below 64 is off by less than 2^-46.
    off = float(np.abs(np.log(table) - exact).max()) + 2.0**-44
    bound = float(_levels(cells) * (4 * rate + 8 * off)) * (1 + 2.0**-50)
    assert bound <= epsilon
    return bound


def people_off(cells: int, epsilon: float) -> float:
    """By how many people an edge lies off at least, typically: where a weight has fallen to 1 / e.

    Args:
        cells: How many cells the edges make.
        epsilon: Of the draw.
    """
    return 4 * _levels(cells) / epsilon


def draw(
    below: np.ndarray, people: int, table: np.ndarray, cells: int, uniform: Uniform
) -> tuple[int, ...]:
    """One draw of all edges: places in the grid, rising.

    Args:
        below: How many values are at most each point of the grid, rising integers, shape (k,).
        people: How many values there are.
        table: Of `weights`.
        cells: How many cells; at most k + 1.
        uniform: Draws an integer below a bound.
    """
    counts = np.asarray(below, dtype=np.int64)
    places: list[int] = []

    def divide(edges: int, low: int, high: int) -> None:
        """Draw so many edges among the points low..high - 1, and count the people between."""
        if not edges:
            return
        left = edges // 2
        right = edges - 1 - left
        begin = int(counts[low - 1]) if low else 0
        end = int(counts[high]) if high < len(counts) else people
        # Every edge of both parts needs a point of its own.
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
