"""Attacks that a party runs on its own rows before a release, to measure how many it exposes.

Every attacker has the worst-case knowledge of the threat model: the mechanism, its parameters and
the exact distribution of the true values, but not the secret.
"""

import math
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np

from opboost_ops.domain import Domain
from opboost_ops.errors import ContractError
from opboost_ops.mechanisms.channel import Channel

#: A gain below this counts as hardly any, however significant, unless the baseline is doubled.
LITTLE = 0.01

#: If the lower end of the interval exceeds this share, most rows count as guessed.
MOST = 0.5

#: Smaller differences of probabilities or log-likelihoods are rounding errors.
ROUNDING = 1e-9

_NO_ROWS = "An attack needs columns of one length, and at least one row."


@dataclass(frozen=True)
class Attack:
    """The result of one attack.

    Attributes:
        name: Name of the attack.
        successes: Rows guessed correctly; fractional if an attacker must choose among ties.
        trials: Rows attacked.
        success: Share of rows guessed correctly.
        low, high: Its 95 % Wilson interval.
        baseline: Success of the attacker without a release.
        about: What is attacked and what counts as correct, in words.
        without: Strategy of the attacker without a release, in words.
    """

    name: str
    successes: float
    trials: int
    success: float
    low: float
    high: float
    baseline: float
    about: str
    without: str = "the median"

    @property
    def gain(self) -> float:
        """Success above the baseline, due to the release."""
        return self.success - self.baseline

    @property
    def verdict(self) -> str:
        """The result in words.

        "Hardly more" if the interval includes the baseline, or if the gain is below 0.01 and the
        baseline is not doubled; "most rows" if the interval lies above one half.
        """
        little = self.gain < LITTLE and self.success < 2 * self.baseline
        if self.low <= self.baseline or little:
            return f"tells hardly more than {self.without}"
        if self.low > MOST:
            return "places most rows"
        return f"tells clearly more than {self.without}"


def wilson(successes: float, trials: int) -> tuple[float, float]:
    """Return the 95 % score interval of a number of successes (E. B. Wilson, 1927)."""
    z = NormalDist().inv_cdf(0.975)
    share = successes / trials
    denominator = 1 + z * z / trials
    middle = (share + z * z / (2 * trials)) / denominator
    half = z / denominator * math.sqrt(share * (1 - share) / trials + z * z / (4 * trials * trials))
    # At the ends the formula is exactly 0 or 1, but floating point is not.
    low = 0.0 if successes == 0 else max(0.0, middle - half)
    high = 1.0 if successes == trials else min(1.0, middle + half)
    return low, high


def measured(
    name: str,
    successes: float,
    trials: int,
    baseline: float,
    about: str,
    without: str = "the median",
) -> Attack:
    """Return an attack's result with its interval; see ``Attack`` for the arguments."""
    low, high = wilson(successes, trials)
    return Attack(
        name, float(successes), trials, successes / trials, low, high, baseline, about, without
    )


def require_rows(*columns: np.ndarray) -> int:
    """Return the number of rows n of columns of shape (n,).

    Raises:
        ContractError: There are no rows, or the columns differ in length.
    """
    lengths = {len(column) for column in columns}
    if len(lengths) != 1 or 0 in lengths:
        raise ContractError(_NO_ROWS)
    return lengths.pop()


def tolerance_of(domain: Domain) -> int:
    """Return the steps within which a guess counts as correct: floor(5 % of R - L)."""
    return (domain.upper - domain.lower) // 20


def marginal_of(values: np.ndarray, channel: Channel) -> np.ndarray:
    """Return the distribution of a party's values, shape (n,), over a channel's inputs.

    Raises:
        ContractError: There are no values, or one lies outside the domain.
    """
    rows = require_rows(values)
    return np.bincount(positions(values, channel.inputs), minlength=len(channel.inputs)) / rows


def positions(values: np.ndarray, among: np.ndarray) -> np.ndarray:
    """Return indices of integers, of any shape, in a channel's ascending inputs or outputs.

    Raises:
        ContractError: A value is not an input or output of the channel.
    """
    indices = np.minimum(np.searchsorted(among, values), len(among) - 1)
    if not np.array_equal(among[indices], values):
        raise ContractError("A value is not an input or output of the channel.")
    return indices


def best_windows(weights: np.ndarray, tolerance: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the guess with the most posterior mass within the tolerance, which is optimal.

    Args:
        weights: Posterior, not necessarily normalised, float64, shape (m, inputs), of consecutive
            integers.
        tolerance: Steps, at least 0.

    Returns:
        Indices of the inputs to guess, int64, shape (m,), the lowest of equals; and the mass
        within the tolerance of each, float64, shape (m,).
    """
    size = weights.shape[1]
    until = np.concatenate([np.zeros((len(weights), 1)), np.cumsum(weights, axis=1)], axis=1)
    centre = np.arange(size)
    upper = np.minimum(centre + tolerance + 1, size)
    mass = until[:, upper] - until[:, np.maximum(centre - tolerance, 0)]
    best = mass.argmax(axis=1)
    return best, mass[np.arange(len(mass)), best]


def median_success(
    values: np.ndarray,
    inputs: np.ndarray,
    marginal: np.ndarray,
    tolerance: int,
    rows: np.ndarray | None = None,
) -> float:
    """Return the share of rows whose value is within the tolerance of the lower median.

    Args:
        values: Domain integers, int64, shape (n,).
        inputs: All integers of the domain, shape (inputs,).
        marginal: Their probabilities, shape (inputs,).
        tolerance: Steps.
        rows: Number of rows with each of the values, shape (n,); 1 each by default.
    """
    # Rounding errors must not move an exact half to the next value.
    middle = np.searchsorted(np.cumsum(marginal), marginal.sum() / 2 - ROUNDING)
    near = np.abs(values - inputs[middle]) <= tolerance
    return float(np.mean(near) if rows is None else rows[near].sum() / rows.sum())


def guess(
    values: np.ndarray,
    released: np.ndarray,
    channel: Channel,
    marginal: np.ndarray,
    tolerance: int,
) -> Attack:
    """Guess every value from its release by Bayes' rule, with a known marginal.

    On a skewed marginal, this attacker can beat the median without a release, by guessing where
    most values lie.

    Args:
        values: True domain integers, int64, shape (n,).
        released: Their releases, int64, shape (n,).
        channel: Channel of the releases.
        marginal: Probabilities of the inputs, shape (inputs,).
        tolerance: Steps within which a guess is correct.

    Raises:
        ContractError: There are no rows, or a value or release does not belong to the channel.
    """
    require_rows(values, released)
    inputs, outputs = positions(values, channel.inputs), positions(released, channel.outputs)
    by_output, _ = best_windows(channel.probabilities().T * marginal, tolerance)
    near = np.abs(values - channel.inputs[by_output[outputs]]) <= tolerance
    rows = np.bincount(inputs, minlength=len(channel.inputs))
    return measured(
        "guess",
        int(near.sum()),
        len(values),
        median_success(channel.inputs, channel.inputs, marginal, tolerance, rows),
        f"each value from its release, within {tolerance} steps, the distribution being known",
    )


def rank_match(values: np.ndarray, released: np.ndarray, tolerance: int) -> Attack:
    """Match the sorted true values, known as a multiset, to the releases sorted by rank.

    Rows with equal ranks share the middle of their values: breaking ties by the order of rows
    would give the attacker an order that no release discloses.

    Args:
        values: True domain integers, int64, shape (n,).
        released: Their releases or ranks, any order-preserving numbers, shape (n,).
        tolerance: Steps within which a guess is correct.

    Raises:
        ContractError: There are no rows.
    """
    rows = require_rows(values, released)
    ordered = np.sort(values)
    _, block, sizes = np.unique(released, return_inverse=True, return_counts=True)
    middle = np.cumsum(sizes) - sizes + (sizes - 1) // 2
    return measured(
        "rank match",
        int((np.abs(ordered[middle[block]] - values) <= tolerance).sum()),
        rows,
        float(np.mean(np.abs(values - ordered[(rows - 1) // 2]) <= tolerance)),
        f"each value from its rank, within {tolerance} steps, the multiset being known",
    )


#: Maximum levels of a known column; with more distinct values, it is cut at quantiles.
_LEVELS = 10


def correlated(
    values: np.ndarray,
    released: np.ndarray,
    other_values: np.ndarray,
    channel: Channel,
    tolerance: int,
) -> Attack:
    """Guess every value from its release and a second column that the attacker knows in clear.

    The joint prior P(x, z) is counted on the party's own rows, as if the attacker knew it exactly.
    With few rows per level, this overstates both the success and the baseline.

    Args:
        values: True domain integers, int64, shape (n,).
        released: Their releases, int64, shape (n,).
        other_values: The known column, finite numbers, shape (n,).
        channel: Channel of the releases.
        tolerance: Steps within which a guess is correct.

    Returns:
        The attack; its baseline is the best guess from the known column alone.

    Raises:
        ContractError: There are no rows, or a value or release does not belong to the channel.
    """
    trials = require_rows(values, released, other_values)
    inputs, outputs = positions(values, channel.inputs), positions(released, channel.outputs)
    level = _levels(other_values)
    transposed = channel.probabilities().T
    right = alone = 0
    for group in np.unique(level):
        rows = np.flatnonzero(level == group)
        prior = np.bincount(inputs[rows], minlength=len(channel.inputs)) / len(rows)
        guessed, _ = best_windows(transposed * prior, tolerance)
        right += int((np.abs(guessed[outputs[rows]] - inputs[rows]) <= tolerance).sum())
        blind, _ = best_windows(prior[None, :], tolerance)
        alone += int((np.abs(blind[0] - inputs[rows]) <= tolerance).sum())
    return measured(
        "correlated",
        right,
        trials,
        alone / trials,
        f"each value from its release and a known column, within {tolerance} steps",
        "the known column alone",
    )


def _levels(other: np.ndarray) -> np.ndarray:
    distinct = np.unique(other)
    if len(distinct) <= _LEVELS:
        return np.searchsorted(distinct, other)
    inner = np.linspace(0, 1, _LEVELS + 1)[1:-1]
    return np.searchsorted(np.quantile(other, inner), other, side="right")
