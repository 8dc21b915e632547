"""Counts of true values from counts of released ones, by a channel that everybody knows."""

import numpy as np

from opboost_ops.mechanisms.channel import Channel

#: Above this the inverse of a channel says nothing in double precision.
CONDITION = 1e10

#: Rounds of expectation maximisation on a channel with |D| outputs.
ROUNDS = 300

_LEAST = 1e-300


def direct(channel: Channel) -> np.ndarray:
    """The matrix of the estimate that takes released values for true ones.

    Returns:
        float64, shape (|D|, outputs): estimated counts of true values by output.
    """
    place = channel.outputs - channel.inputs[0]
    matrix = np.zeros((len(channel.inputs), len(channel.outputs)))
    matrix[place, np.arange(len(channel.outputs))] = 1.0
    return matrix


def inverse(channel: Channel) -> tuple[np.ndarray, float]:
    """The unbiased estimate: the channel's least-squares inverse, and its condition number.

    Where there are fewer outputs than values (buckets), it is unbiased for buckets, and spreads a
    bucket evenly over its values. The condition number is the largest singular value over the
    least one.
    """
    left, singular, right = np.linalg.svd(channel.probabilities().T, full_matrices=False)
    condition = float(singular[0] / max(float(singular[-1]), 1e-300))
    # Of fewer outputs than values the even spread is the least solution, which this one is.
    return (right.T / singular) @ left.T, condition


def likely(channel: Channel, counts: np.ndarray) -> np.ndarray:
    """Expectation maximisation with smoothing, as of the Square Wave mechanism, but started evenly.

    Each round is a step towards the likeliest true counts, followed by smoothing over neighbours
    with weights 1/4, 1/2, 1/4. Counts stay at or above 0 and keep their sum. There are so many
    rounds that each channel takes the same work: `ROUNDS` for |D| outputs, more for fewer.

    Args:
        channel: What randomised the rows.
        counts: Rows by output, shape (outputs, releases).

    Returns:
        Estimated counts of true values, shape (|D|, releases).
    """
    table = channel.probabilities()
    back = np.ascontiguousarray(table.T)
    size, outputs = table.shape
    share = np.full((size, counts.shape[1]), 1.0 / size)
    seen = counts / counts.sum(axis=0)
    for _ in range(ROUNDS * size // outputs):
        # A partition that nobody is in has neither rows nor a share left: nothing by nothing is 0.
        share *= table @ (seen / np.maximum(back @ share, _LEAST))
        padded = np.vstack([share[:1], share, share[-1:]])
        share = (padded[:-2] + 2 * padded[1:-1] + padded[2:]) / 4
    return np.asarray(share * counts.sum(axis=0))
