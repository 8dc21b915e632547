"""Renyi differential privacy: composition of releases with integer noise.

A release is represented by its curve: for each order alpha, the Renyi divergence between its
outputs on two tables that differ in one row. Curves of releases add up, even if releases depend on
earlier ones, and are converted to (epsilon, delta) once, at the end (Mironov, 2017).
"""

import math
from collections.abc import Iterable, Mapping

from opboost_ops.config.schema import Record

#: Integer orders: the bound on Skellam noise holds for integers from 2. Ledgers store curves by
#: index, so new orders are appended. A small epsilon needs high orders.
ORDERS = (
    *range(2, 65),
    *(72, 80, 96, 112, 128, 160, 192, 256, 384, 512, 1024),
    *(1536, 2048, 3072, 4096, 8192),
)

#: Rounds up the floating-point result of a few operations.
_UP = 1 + 2.0**-40


class RenyiCurve(Record):
    """Renyi divergences by order.

    Attributes:
        values: A bound on the divergence for each of `ORDERS`; higher orders are unknown.
        delta: Delta of the conversion to epsilon.
    """

    values: tuple[float, ...]
    delta: float

    @property
    def epsilon(self) -> float:
        """Epsilon of this curve alone, at its delta."""
        return epsilon_of(self.values, self.delta)


def skellam(l1: float, l2_squared: float, variance: float) -> tuple[float, ...]:
    """Return the curve of an integer vector with Skellam noise.

    Agarwal, Kairouz and Liu, "The Skellam Mechanism for Differentially Private Federated Learning"
    (2021), Theorem 3.5 and Corollary 3.6: for integers alpha > 1 the divergence is at most
    alpha L2^2 / (2 v) + min(((2 alpha - 1) L2^2 + 6 L1) / (4 v^2), 3 L1 / (2 v)).

    Args:
        l1: L1 sensitivity: maximum change of the vector by one row, sum of absolute changes.
        l2_squared: Squared L2 sensitivity: sum of squared changes.
        variance: Variance v of the noise of each number.

    Returns:
        One value for each of `ORDERS`.
    """
    return tuple(
        _UP
        * (
            alpha * l2_squared / (2 * variance)
            + min(
                ((2 * alpha - 1) * l2_squared + 6 * l1) / (4 * variance**2),
                3 * l1 / (2 * variance),
            )
        )
        for alpha in ORDERS
    )


def pure(epsilon: float) -> tuple[float, ...]:
    """Return the curve of a pure-epsilon release: min(alpha epsilon^2 / 2, epsilon).

    Args:
        epsilon: Its loss.
    """
    return tuple(min(_UP * alpha * epsilon**2 / 2, epsilon) for alpha in ORDERS)


def composed(curves: Iterable[Iterable[float]]) -> tuple[float, ...]:
    """Return the curve of releases on the same rows, each chosen adaptively.

    Args:
        curves: Values of their curves.
    """
    return tuple(math.fsum(values) * _UP for values in zip(*curves, strict=True))


def repeated(curve: Iterable[float], times: int) -> tuple[float, ...]:
    """Return the curve of a number of releases with equal curves."""
    return tuple(value * times * _UP for value in curve)


def epsilon_of(values: Iterable[float], delta: float) -> float:
    """Return the smallest epsilon of a curve at a delta.

    Canonne, Kamath and Steinke (2020), Proposition 12: for every alpha
    epsilon = value + ln((alpha - 1) / alpha) - (ln delta + ln alpha) / (alpha - 1).

    Args:
        values: Divergence for each of `ORDERS`.
        delta: Between 0 and 1.
    """
    bounds = (
        value + math.log1p(-1 / alpha) - (math.log(delta) + math.log(alpha)) / (alpha - 1)
        for alpha, value in zip(ORDERS, values, strict=True)
    )
    return float(max(min(bounds), 0.0) * _UP)


def shown(curve: RenyiCurve) -> Mapping[str, float]:
    """Return a curve's epsilon and delta for display."""
    return {"epsilon": curve.epsilon, "delta": curve.delta}
