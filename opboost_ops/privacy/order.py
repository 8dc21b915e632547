"""How much of the order of values a mechanism keeps: exact, from its channel."""

import numpy as np

from opboost_ops.mechanisms.channel import Channel


def pair_order(channel: Channel) -> tuple[np.ndarray, np.ndarray]:
    """What becomes of the order of two values, each randomised by itself.

    Args:
        channel: Any channel; its outputs need not rise.

    Returns:
        Two float64 arrays of shape (|D|, |D|): at [i, j] the probability that the output of
        input i is greater than the output of input j, and that both are equal.
    """
    distinct, place = np.unique(channel.outputs, return_inverse=True)
    table = np.zeros((len(channel.inputs), len(distinct)))
    np.add.at(table.T, place, channel.probabilities().T)
    below = np.cumsum(table, axis=1) - table
    return table @ below.T, table @ table.T


def expected_weighted_kendall(marginal: np.ndarray, channel: Channel) -> float:
    """The weighted Kendall coefficient that a release may be expected to have.

    The ratio of the expected sum over pairs to the sum of weights, for rows drawn from the
    marginal: what the coefficient of a release tends to as rows grow.

    Args:
        marginal: How many rows, or which share of them, have each input; shape (|D|,).
        channel: The mechanism's channel.
    """
    greater, _ = pair_order(channel)
    weight = np.asarray(marginal, dtype=np.float64)
    present = np.flatnonzero(weight > 0)
    ranks = np.arange(len(present))
    distance = np.abs(ranks[:, None] - ranks[None, :])
    pairs = np.outer(weight[present], weight[present]) * distance
    if pairs.sum() == 0:
        return 1.0
    sign = np.sign(ranks[:, None] - ranks[None, :])
    net = (greater - greater.T)[np.ix_(present, present)] * sign
    return float((pairs * net).sum() / pairs.sum())
