"""Curves of Renyi differential privacy: how releases with integer noise add up.

A release is kept as its curve: for each order alpha, the Renyi divergence between what two tables
lead to that differ by one row. Curves of releases add up, also where a release depends on those
before it, and are turned into (epsilon, delta) once, at the end (Mironov, 2017).
"""

import math
from collections.abc import Iterable, Mapping

from opboost_ops.config.schema import Record

#: Integer orders: the bound on Skellam noise is proved for integers from 2. Ledgers hold curves by
#: place, so new orders come after the others. A small epsilon needs high ones.
ORDERS = (
    *range(2, 65),
    *(72, 80, 96, 112, 128, 160, 192, 256, 384, 512, 1024),
    *(1536, 2048, 3072, 4096, 8192),
)

#: Rounds a float of a few operations up.
_UP = 1 + 2.0**-40


class RenyiCurve(Record):
    """Divergences by order.

    Attributes:
        values: For each of `ORDERS`, a bound on the divergence; none is known beyond the last.
        delta: At which it is turned into epsilon.
    """

    values: tuple[float, ...]
    delta: float

    @property
    def epsilon(self) -> float:
        """Its epsilon by itself, at its own delta."""
        return epsilon_of(self.values, self.delta)


def skellam(l1: float, l2_squared: float, variance: float) -> tuple[float, ...]:
    """The curve of an integer vector with Skellam noise.

    Agarwal, Kairouz and Liu, "The Skellam Mechanism for Differentially Private Federated Learning"
    (2021), Theorem 3.5 and Corollary 3.6: for integers alpha > 1 the divergence is at most
    alpha L2^2 / (2 v) + min(((2 alpha - 1) L2^2 + 6 L1) / (4 v^2), 3 L1 / (2 v)).

    Args:
        l1: By how much one row changes the vector at most, sum of absolute changes.
        l2_squared: The same, sum of squared changes.
        variance: v, of the noise of each number.

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
    """The curve of a release with epsilon alone: alpha epsilon^2 / 2, and never above epsilon.

    Args:
        epsilon: Its loss.
    """
    return tuple(min(_UP * alpha * epsilon**2 / 2, epsilon) for alpha in ORDERS)


def composed(curves: Iterable[Iterable[float]]) -> tuple[float, ...]:
    """The joint cost of releases on the same rows, each chosen after those before it.

    Args:
        curves: Their values.
    """
    return tuple(math.fsum(values) * _UP for values in zip(*curves, strict=True))


def repeated(curve: Iterable[float], times: int) -> tuple[float, ...]:
    """The joint cost of as many releases with one curve."""
    return tuple(value * times * _UP for value in curve)


def epsilon_of(values: Iterable[float], delta: float) -> float:
    """The least epsilon of a curve at a delta.

    Canonne, Kamath and Steinke (2020), Proposition 12: for every alpha
    epsilon = value + ln((alpha - 1) / alpha) - (ln delta + ln alpha) / (alpha - 1).

    Args:
        values: For each of `ORDERS`.
        delta: Between 0 and 1.
    """
    bounds = (
        value + math.log1p(-1 / alpha) - (math.log(delta) + math.log(alpha)) / (alpha - 1)
        for alpha, value in zip(ORDERS, values, strict=True)
    )
    return float(max(min(bounds), 0.0) * _UP)


def shown(curve: RenyiCurve) -> Mapping[str, float]:
    """A curve as people read it."""
    return {"epsilon": curve.epsilon, "delta": curve.delta}
