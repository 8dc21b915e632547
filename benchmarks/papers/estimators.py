"""Counts of true values from counts of released ones, by a channel that everybody knows."""

from dataclasses import dataclass

import numpy as np

from benchmarks.papers.ranges import Queries
from opboost_ops.mechanisms.channel import Channel

#: Above this the inverse of a channel says nothing in double precision.
CONDITION = 1e10

#: Rounds of expectation maximisation on a channel with |D| outputs.
ROUNDS = 300

_LEAST = 1e-300


@dataclass(frozen=True, eq=False)
class Linear:
    """An estimate that is linear in the counts of released values.

    Attributes:
        matrix: float64, shape (|D|, outputs): estimated counts of true values by output.
        channel: Pr[output | input], float64, shape (|D|, outputs).
    """

    matrix: np.ndarray
    channel: np.ndarray

    def estimate(self, counts: np.ndarray) -> np.ndarray:
        """Estimated counts of true values.

        Args:
            counts: Rows by output, shape (outputs, releases).

        Returns:
            Shape (|D|, releases).
        """
        return np.asarray(self.matrix @ counts)

    def expected_error(self, truth: np.ndarray, queries: Queries) -> float:
        """What the mean squared error of the answers must be, without any release.

        Every row is randomised by itself, so the counts' covariance follows from the channel:
        the error of an answer is its squared bias and its variance.

        Args:
            truth: True rows by value, shape (|D|,).
            queries: The ranges.

        Returns:
            The mean over queries, of answers as shares of all rows.
        """
        rows = truth.sum()
        mean = self.channel.T @ truth
        covariance = np.diag(mean) - self.channel.T @ (truth[:, None] * self.channel)
        # Answers are differences of what lies below a value, for which one matrix is enough.
        upto = np.cumsum(np.vstack([np.zeros((1, len(mean))), self.matrix]), axis=0)
        bias = (upto @ mean - np.concatenate([[0.0], np.cumsum(truth)])) / rows
        spread = upto @ covariance @ upto.T / rows**2
        a, b = queries.first, queries.last + 1
        own = np.diagonal(spread)
        variance = np.maximum(own[a] + own[b] - 2 * spread[a, b], 0.0)
        return float(((bias[b] - bias[a]) ** 2 + variance).mean())


def direct(channel: Channel) -> Linear:
    """Released values taken for true ones."""
    place = channel.outputs - channel.inputs[0]
    matrix = np.zeros((len(channel.inputs), len(channel.outputs)))
    matrix[place, np.arange(len(channel.outputs))] = 1.0
    return Linear(matrix, channel.probabilities())


def inverse(channel: Channel) -> tuple[Linear, float]:
    """The unbiased estimate: the channel's least-squares inverse, and its condition number.

    Where there are fewer outputs than values (buckets), it is unbiased for buckets, and spreads a
    bucket evenly over its values. The condition number is the largest singular value over the
    least one.
    """
    table = channel.probabilities()
    left, singular, right = np.linalg.svd(table.T, full_matrices=False)
    condition = float(singular[0] / max(float(singular[-1]), 1e-300))
    # Of fewer outputs than values the even spread is the least solution, which this one is.
    return Linear((right.T / singular) @ left.T, table), condition


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
