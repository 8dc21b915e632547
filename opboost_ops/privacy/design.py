"""Channels of least expected cost under a loss curve, by a linear programme.

    minimise  sum over x, y of prior(x) cost(x, y) Pr[y | x]
    with      Pr[y | x] <= e^l(|x - x'|) Pr[y | x'],   l(t) = min(epsilon t, most)

Steps multiply, so that the near part of the curve is a bound between neighbours, and the far one
a bound between all values and the least of their column: |D|^2 constraints in all, not |D|^3.

A solver keeps constraints to about 10^-7 only. Its answer is repaired: columns are raised to their
l-Lipschitz envelope, rows renormalised, and mixed with the uniform law until the counts keep the
curve in integers. A solver's next version may find another table of the same cost, and a table's
digest keys the noise: so it is solved once, and kept as a file.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Literal

import numpy as np

from opboost_ops.domain import Domain
from opboost_ops.errors import ConfigError
from opboost_ops.mechanisms.channel import apportioned, keeps_everywhere, keeps_steps, precise
from opboost_ops.mechanisms.designed import MOST_DESIGNED, Designed, Table

Cost = Literal["absolute", "squared"]

#: Outputs that no value gives with more than this are left out.
_UNUSED = 1e-6

#: First and last share of the uniform law; each is twice the one before.
_MIXED, _MOST_MIXED = 2.0**-34, 2.0**-6


@dataclass(frozen=True)
class Design:
    """A designed channel, and what it cost to make it exact.

    Attributes:
        mechanism: The channel.
        least: Expected cost of the linear programme's answer.
        expected: Expected cost of the channel.
    """

    mechanism: Designed
    least: float
    expected: float


def design(
    domain: Domain,
    epsilon: float,
    most: float,
    cost: Cost = "absolute",
    prior: Sequence[float] | None = None,
) -> Design | None:
    """Make a channel.

    Args:
        domain: Of at most `MOST_DESIGNED` values.
        epsilon: Loss per unit of distance.
        most: Loss between any two values.
        cost: |x - y| or its square.
        prior: Weights of the domain's values, none below 0: declared, or estimated from earlier
            releases, never read off the table. Uniform when absent.

    Returns:
        None if no repair keeps the curve in integers: the geometric mechanism at
        min(epsilon, most / (R - L)) keeps it, too.

    Raises:
        ConfigError: The domain is too large, or the prior does not fit.
    """
    if domain.size > MOST_DESIGNED:
        raise ConfigError(
            f"A channel is designed for at most {MOST_DESIGNED} values; here are {domain.size}.",
            "Declare a smaller domain, or the geometric mechanism.",
        )
    weights = _weights(domain, prior)
    distance = np.abs(np.subtract.outer(np.arange(domain.size), np.arange(domain.size)))
    costs = weights[:, None] * distance.astype(float) ** (2 if cost == "squared" else 1)
    solved = _solved(costs, epsilon, most)
    used = solved.max(axis=0) > _UNUSED
    if used.sum() < 2:
        # Best is then to tell nothing; a channel tells something.
        return None
    solution = solved[:, used]
    solution = _raised(solution / solution.sum(axis=1, keepdims=True), epsilon, most)
    solution /= solution.sum(axis=1, keepdims=True)
    share = _MIXED
    while share <= _MOST_MIXED:
        counts = [_counts((1 - share) * row + share / len(row)) for row in solution]
        if keeps_steps(counts, epsilon) and keeps_everywhere(counts, most):
            table = Table(
                lower=domain.lower,
                upper=domain.upper,
                outputs=tuple(domain.values()[used].tolist()),
                counts=tuple(tuple(map(str, row)) for row in counts),
            )
            mechanism = Designed(epsilon=epsilon, most=most, table=table)
            probabilities = mechanism.channel(domain).probabilities()
            expected = float((costs[:, used] * probabilities).sum())
            return Design(mechanism, float((costs * solved).sum()), expected)
        share *= 2
    return None


def _weights(domain: Domain, prior: Sequence[float] | None) -> np.ndarray:
    if prior is None:
        return np.full(domain.size, 1 / domain.size)
    weights = np.array(prior, dtype=np.float64)
    fits = weights.shape == (domain.size,) and np.isfinite(weights).all()
    if not (fits and weights.min() >= 0 and weights.sum() > 0):
        raise ConfigError(
            f"A prior has {domain.size} weights here, one for each value, none below 0 and not "
            "all of them 0."
        )
    return np.asarray(weights / weights.sum())


def _solved(costs: np.ndarray, epsilon: float, most: float) -> np.ndarray:
    """The programme's answer, float64, shape (|D|, |D|), clipped to what probabilities may be."""
    from scipy import sparse
    from scipy.optimize import linprog

    size = len(costs)
    cells = np.arange(size * size).reshape(size, size)
    least = np.tile(size * size + np.arange(size), size)
    # Each says that a factor times one variable is at most another.
    parts = [
        (math.exp(-epsilon), cells[1:].ravel(), cells[:-1].ravel()),
        (math.exp(-epsilon), cells[:-1].ravel(), cells[1:].ravel()),
    ]
    if most < epsilon * (size - 1):
        parts += [(math.exp(-most), cells.ravel(), least), (1.0, least, cells.ravel())]
    lefts = [factor * np.ones(len(small)) for factor, small, _ in parts]
    count = sum(len(small) for _, small, _ in parts)
    rows = np.arange(count)
    bounds = sparse.csr_matrix(
        (
            np.concatenate([*lefts, -np.ones(count)]),
            (
                np.concatenate([rows, rows]),
                np.concatenate([*(small for _, small, _ in parts), *(big for _, _, big in parts)]),
            ),
        ),
        shape=(count, size * size + size),
    )
    sums = sparse.csr_matrix(
        (np.ones(size * size), (np.repeat(np.arange(size), size), cells.ravel())),
        shape=(size, size * size + size),
    )
    solution = linprog(
        np.concatenate([costs.ravel(), np.zeros(size)]),
        A_ub=bounds,
        b_ub=np.zeros(count),
        A_eq=sums,
        b_eq=np.ones(size),
        bounds=(0, 1),
        method="highs",
    )
    if solution.x is None:
        raise ConfigError(
            "The solver found no channel for this curve.", "Take the geometric mechanism."
        )
    return np.asarray(np.clip(solution.x[: size * size].reshape(size, size), 0.0, 1.0))


def _raised(table: np.ndarray, epsilon: float, most: float) -> np.ndarray:
    """Each column at the least law above it whose logarithm moves by l(t) at most over t."""
    steps = np.abs(np.subtract.outer(np.arange(len(table)), np.arange(len(table))))
    reach = np.exp(-np.minimum(epsilon * steps, most))
    return np.asarray((reach[:, :, None] * table[None, :, :]).max(axis=1))


def _counts(row: np.ndarray) -> tuple[int, ...]:
    with precise():
        shares = [Decimal(float(share)) for share in row]
        whole = sum(shares, Decimal(0))
        return apportioned([share / whole for share in shares])
