"""Channels of least expected cost under a loss curve, computed by a linear programme.

    minimise  sum over x, y of prior(x) cost(x, y) Pr[y | x]
    with      Pr[y | x] <= e^l(|x - x'|) Pr[y | x'],   l(t) = min(epsilon t, most)

Ratios of neighbours multiply. So the first part of the curve is a constraint between neighbours,
and the second one a constraint between every value and the minimum of its column: |D|^2 constraints
instead of |D|^3.

A solver satisfies constraints only to about 10^-7, so its solution is repaired: columns are raised
to their l-Lipschitz envelope, rows are renormalised, and the result is mixed with the uniform
distribution until its counts satisfy the curve in exact integers. Another version of the solver may
return a different table of the same cost, and a table's digest is part of the declaration;
therefore a channel is solved once and stored in a file.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Literal

import numpy as np

from opboost_ops.domain import Domain
from opboost_ops.errors import ConfigError
from opboost_ops.mechanisms.channel import apportion, keeps_everywhere, keeps_steps, precise
from opboost_ops.mechanisms.designed import MOST_DESIGNED, Designed, Table

Cost = Literal["absolute", "squared"]

#: Outputs that have at most this probability for every value are dropped.
_UNUSED = 1e-6

#: First and last share of the uniform distribution; each trial doubles it.
_MIN_UNIFORM, _MAX_UNIFORM = 2.0**-34, 2.0**-6


@dataclass(frozen=True)
class Design:
    """A designed channel and its cost.

    Attributes:
        mechanism: The channel.
        least: Expected cost of the linear programme's solution.
        expected: Expected cost of the repaired channel.
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
    """Design a channel.

    Args:
        domain: A domain of at most `MOST_DESIGNED` values.
        epsilon: Loss per unit of distance.
        most: Maximum loss between any two values.
        cost: |x - y| or its square.
        prior: Non-negative weights of the domain's values: declared, or estimated from earlier
            releases, never computed from the table. Uniform by default.

    Returns:
        None if no repaired channel satisfies the curve in integers. The geometric mechanism at
        min(epsilon, most / (R - L)) satisfies it, too.

    Raises:
        ConfigError: The domain is too large, or the prior does not fit.
    """
    if domain.size > MOST_DESIGNED:
        raise ConfigError(
            f"A designed channel supports at most {MOST_DESIGNED} values, not {domain.size}.",
            "Declare a smaller domain, or the geometric mechanism.",
        )
    weights = _weights(domain, prior)
    distance = np.abs(np.subtract.outer(np.arange(domain.size), np.arange(domain.size)))
    costs = weights[:, None] * distance.astype(float) ** (2 if cost == "squared" else 1)
    solved = _solved(costs, epsilon, most)
    used = solved.max(axis=0) > _UNUSED
    if used.sum() < 2:
        # The optimum is a constant output, and a channel needs two outputs.
        return None
    solution = solved[:, used]
    solution = _lipschitz_envelope(solution / solution.sum(axis=1, keepdims=True), epsilon, most)
    solution /= solution.sum(axis=1, keepdims=True)
    share = _MIN_UNIFORM
    while share <= _MAX_UNIFORM:
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
            f"A prior needs {domain.size} weights, one per value, none negative and not all 0."
        )
    return np.asarray(weights / weights.sum())


def _solved(costs: np.ndarray, epsilon: float, most: float) -> np.ndarray:
    """Solve the linear programme; float64, shape (|D|, |D|), clipped to [0, 1]."""
    from scipy import sparse
    from scipy.optimize import linprog

    size = len(costs)
    cells = np.arange(size * size).reshape(size, size)
    least = np.tile(size * size + np.arange(size), size)
    # Each triple states that a factor times one variable is at most another variable.
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
            "The solver found no channel for this loss curve.", "Use the geometric mechanism."
        )
    return np.asarray(np.clip(solution.x[: size * size].reshape(size, size), 0.0, 1.0))


def _lipschitz_envelope(table: np.ndarray, epsilon: float, most: float) -> np.ndarray:
    """Raise each column to its least upper bound whose logarithm changes by at most l(t)."""
    distances = np.abs(np.subtract.outer(np.arange(len(table)), np.arange(len(table))))
    factors = np.exp(-np.minimum(epsilon * distances, most))
    return np.asarray((factors[:, :, None] * table[None, :, :]).max(axis=1))


def _counts(row: np.ndarray) -> tuple[int, ...]:
    with precise():
        shares = [Decimal(float(share)) for share in row]
        total = sum(shares, Decimal(0))
        return apportion([share / total for share in shares])
