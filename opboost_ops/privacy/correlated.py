"""The attack of who holds a second column of the same rows in clear."""

import numpy as np

from opboost_ops.mechanisms.channel import Channel
from opboost_ops.privacy.attacks import Attack, best_windows, measured, positions, require_rows

#: Most levels of a known column: with more distinct values, it is cut at quantiles.
_LEVELS = 10


def correlated(
    values: np.ndarray,
    released: np.ndarray,
    other_values: np.ndarray,
    channel: Channel,
    tolerance: int,
) -> Attack:
    """Guess every value from its release and a second column that the attacker holds in clear.

    The joint prior P(x, z) is counted on the party's own rows, as if the attacker knew it exactly:
    with few rows a level, both the success and the baseline are overstated.

    Args:
        values: True domain integers, int64, shape (n,).
        released: Their releases, int64, shape (n,).
        other_values: The known column, finite numbers, shape (n,).
        channel: What released the values.
        tolerance: Steps within which a guess is right.

    Returns:
        The attack; its baseline is the best guess from the known column alone.

    Raises:
        ContractError: There are no rows, or a value or release is none of the channel's.
    """
    trials = require_rows(values, released, other_values)
    inputs, outputs = positions(values, channel.inputs), positions(released, channel.outputs)
    level = _levels(other_values)
    transposed = channel.probabilities().T
    right = alone = 0
    for one in np.unique(level):
        rows = np.flatnonzero(level == one)
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
