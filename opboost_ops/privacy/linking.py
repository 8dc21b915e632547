"""An attack on the releases of two receivers: to link their rows."""

from collections.abc import Sequence

import numpy as np

from opboost_ops.mechanisms.channel import Channel
from opboost_ops.privacy.attacks import ROUNDING, Attack, measured, positions, require_rows


def link(
    first: Sequence[np.ndarray],
    second: Sequence[np.ndarray],
    channel_first: Sequence[Channel],
    channel_second: Sequence[Channel],
    marginal: Sequence[np.ndarray],
    sample: int = 200,
) -> Attack:
    """Find persons of one receiver's artifact in another's, whose noise is independent.

    A pair of rows is scored by the likelihood ratio of one person against two,
    sum over columns of ln(sum over x of p(x) Pr1[y | x] Pr2[y' | x]) - ln(Pr1[y] Pr2[y']),
    with columns taken as independent, and the highest score is picked; a tie of t rows that
    holds the right one counts 1 / t.

    Args:
        first: The columns that both receivers hold, as the first sees them, int64, each (n,).
        second: The same as the second sees them, the same person in the same row.
        channel_first: What released each column to the first.
        channel_second: What released each column to the second.
        marginal: Probabilities of each column's inputs, each (inputs,).
        sample: Most rows of the first that are looked for, evenly spaced.

    Raises:
        ContractError: There are no rows, or a release is none of its channel's outputs.
    """
    n = require_rows(*first, *second)
    rows = np.unique(np.linspace(0, n - 1, min(sample, n)).astype(np.int64))
    score = np.zeros((len(rows), n))
    for y, z, one, two, prior in zip(
        first, second, channel_first, channel_second, marginal, strict=True
    ):
        ratio = _log_ratio(one.probabilities(), two.probabilities(), prior)
        score += ratio[positions(y, one.outputs)[rows]][:, positions(z, two.outputs)]
    best = score.max(axis=1, keepdims=True)
    tied = score >= best - ROUNDING
    right = tied[np.arange(len(rows)), rows] / tied.sum(axis=1)
    return measured(
        "link",
        float(right.sum()),
        len(rows),
        1 / n,
        f"each person among {n} rows of another receiver, over {len(first)} columns",
        "a random pick",
    )


def _log_ratio(one: np.ndarray, two: np.ndarray, prior: np.ndarray) -> np.ndarray:
    joint = one.T @ (prior[:, None] * two)
    apart = np.outer(prior @ one, prior @ two)
    possible = joint > 0
    ratio = np.full(joint.shape, -np.inf)
    ratio[possible] = np.log(joint[possible] / apart[possible])
    return ratio
