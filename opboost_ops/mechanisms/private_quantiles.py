"""Differentially private quantiles: all inner edges of a column's cells in one draw.

Gillenwater, Joseph and Kulesza, "Differentially Private Quantiles" (ICML 2021): the exponential
mechanism over tuples of edges. Here over a public grid, with integer weights and exact sampling.
With m cells, n people and n_j of them in cell j, edges z_1 < ... < z_(m-1) are drawn with

    Pr[z] proportional to prod_j w(|m n_j - n|).

`weights` is that table; it is constant from its last entry on, which moves no ratio up. Somebody
who is replaced moves at most two of the arguments, each by at most m; somebody who is added or
removed moves one by m - 1 and the others by 1. The normalising sum moves by as much again, so with
W(s) the largest ratio of two weights that are at most s entries apart

    loss = max(4 ln W(m), 2 (ln W(m - 1) + (m - 1) ln W(1)))

bounds both, and `loss` computes it from the integers themselves.
"""

import math
from collections.abc import Callable
from decimal import Context, Decimal, localcontext
from fractions import Fraction
from functools import lru_cache

import numpy as np

from opboost_ops.errors import ConfigError

#: Most cells: their edges are drawn in seconds.
MOST_CELLS = 64

#: So many points of the grid lie at equal distances, and so many at equal ratios.
_EVEN, _RATIOS = 128, 895

#: The least weight, and by how many powers of two the greatest is larger.
_LEAST, _RANGE = 1 << 20, 24

#: Bits of a digit in sums of products: a weight, a digit and a count of digits fit into 63 bits.
_DIGIT = 8

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
    """The table w, falling by e^(-epsilon / (4 m)) an entry or a little less, int64.

    Args:
        cells: How many cells the edges make, m.
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
    rate = epsilon / (4 * cells)
    while True:
        table = _falling(rate)
        if _loss(table, cells) <= epsilon:
            return table
        # Rounding has raised a ratio.
        rate *= 1 - 2.0**-12


def _falling(rate: float) -> np.ndarray:
    """Integers that fall by e^-rate, the last one the least weight."""
    with localcontext(Context(prec=60)):
        factor = int(Decimal(rate).exp() * (1 << _FINE))
    length = math.ceil(_RANGE * math.log(2) / rate)
    # By integers alone: on every machine the same table gives the same edges for the same people.
    value, found = _LEAST << _FINE, [_LEAST]
    for _ in range(length):
        value = value * factor >> _FINE
        found.append(value >> _FINE)
    table = np.array(found[::-1], dtype=np.int64)
    table.flags.writeable = False
    return table


@lru_cache(maxsize=64)
def loss(cells: int, epsilon: float) -> float:
    """What edges cost a person who is added, removed or replaced, rounded up.

    Args:
        cells: How many cells they make.
        epsilon: As declared; the loss is at most that.
    """
    return _loss(weights(cells, epsilon), cells)


def _loss(table: np.ndarray, cells: int) -> float:
    replaced = 4 * _log_up(table, cells)
    added = 2 * (_log_up(table, cells - 1) + (cells - 1) * _log_up(table, 1))
    return float(max(replaced, added) * (1 + Fraction(1, 1 << 50)))


def _log_up(table: np.ndarray, steps: int) -> Fraction:
    """A bound on ln of the largest ratio of weights that are some steps apart."""
    later = table[np.minimum(np.arange(len(table)) + steps, len(table) - 1)]
    # A quotient is off by half a unit in the last place, a logarithm by less than two.
    return Fraction(math.log(float((table / later).max()) * (1 + 2.0**-51)) * (1 + 2.0**-50))


class JointQuantiles:
    """The mechanism on one column: prepared once, and drawn from.

    Args:
        below: How many values are at most each point of the grid, rising integers, shape (k,).
        people: How many values there are, n.
        table: Of `weights`.
        cells: How many cells, m; at most k + 1.
    """

    def __init__(self, below: np.ndarray, people: int, table: np.ndarray, cells: int) -> None:
        counts = np.asarray(below, dtype=np.int64)

        def weigh(inside: np.ndarray) -> np.ndarray:
            return np.asarray(table[np.minimum(np.abs(cells * inside - people), len(table) - 1)])

        self._first = weigh(counts)
        # Edges rise strictly, so a pair counts only in one order.
        self._pairs = np.triu(weigh(counts[None, :] - counts[:, None]), 1)
        rest = _carried(weigh(people - counts)[:, None])
        self._rest = [_numbers(rest)]
        for _ in range(cells - 2):
            rest = _carried(self._pairs @ rest)
            self._rest.insert(0, _numbers(rest))

    def draw(self, uniform: Uniform) -> tuple[int, ...]:
        """One draw of all edges: places in the grid, rising.

        Args:
            uniform: Draws an integer below a bound.
        """
        found: list[int] = []
        here = self._first
        for rest in self._rest:
            sums, total = [], 0
            for weight, later in zip(here.tolist(), rest, strict=True):
                total += weight * later
                sums.append(total)
            point = uniform(total)
            found.append(next(at for at, reached in enumerate(sums) if point < reached))
            here = self._pairs[found[-1]]
        return tuple(found)


def _carried(digits: np.ndarray) -> np.ndarray:
    """Sums as digits again, the least first, shape (k, digits)."""
    columns = []
    carry = np.zeros(len(digits), dtype=np.int64)
    for column in digits.T:
        carry = carry + column
        columns.append(carry & ((1 << _DIGIT) - 1))
        carry = carry >> _DIGIT
    while carry.any():
        columns.append(carry & ((1 << _DIGIT) - 1))
        carry = carry >> _DIGIT
    return np.column_stack(columns)


def _numbers(digits: np.ndarray) -> list[int]:
    """The integers that rows of digits stand for."""
    raw = np.ascontiguousarray(digits, dtype=np.uint8).tobytes()
    size = digits.shape[1]
    return [int.from_bytes(raw[at : at + size], "little") for at in range(0, len(raw), size)]
