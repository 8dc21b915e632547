"""Released values drawn back: what a known channel tells of the values behind them.

Trees that learn on randomised values see effects that are washed out, most of all those of rare
values, and so rank clear rows badly. The channel is public, and the label holder has the labels:
from both follows the law of the values behind what was released. Whatever is made of a release
costs nothing: this is post-processing, in the label holder's own hands.
"""

import numpy as np

from opboost_ops.domain import Domain
from opboost_ops.mechanisms.channel import Channel

#: Steps of the estimate; it moves little after some tens.
_STEPS = 200


def redraw(
    ranks: np.ndarray, groups: np.ndarray, channel: Channel, domain: Domain, words: np.ndarray
) -> np.ndarray:
    """Replace each released value by a draw from the law of the value behind it.

    That law is Pr[x | y, group], proportional to Pr[y | x] of the channel times Pr[x | group] as
    estimated from all that was released of the group. Groups are the label's classes: given the
    class, a cell is drawn without regard to the row's other cells.

    Args:
        ranks: Dense ranks of the released values, integers from 1, shape (n,).
        groups: Integers from 0, shape (n,).
        channel: What released them.
        domain: Where they lie.
        words: Uniform 64-bit words that nothing else depends on, shape (n,).

    Returns:
        Ranks, int64, shape (n,): as they were if an output was never released, for then nobody but
        the feature's holder knows which output a rank is.
    """
    ranks = np.asarray(ranks, dtype=np.int64)
    outputs = len(channel.outputs)
    if len(np.unique(ranks)) != outputs:
        return ranks
    # What stands for several values is taken as one of them: their rows are the same.
    rows = channel.span(channel.outputs)[:, 0] - domain.lower
    law = channel.probabilities()[rows]
    uniform = words.astype(np.float64) / 2.0**64
    drawn = np.empty_like(ranks)
    for group in np.unique(groups):
        mine = groups == group
        released = ranks[mine] - 1
        behind = shares(np.bincount(released, minlength=outputs), law)[:, None] * law
        steps = (behind / behind.sum(axis=0)).cumsum(axis=0)
        below = uniform[mine][None, :] > steps[:, released]
        drawn[mine] = np.minimum(below.sum(axis=0), outputs - 1) + 1
    return drawn


def shares(counts: np.ndarray, law: np.ndarray) -> np.ndarray:
    """The likeliest shares of the values behind released ones, by expectation maximisation.

    Args:
        counts: How often each output was released, shape (m,).
        law: Pr[output | value], shape (k, m).

    Returns:
        Shares, float64, shape (k,).
    """
    seen = counts / counts.sum()
    found = np.full(len(law), 1 / len(law))
    for _ in range(_STEPS):
        joint = found[:, None] * law
        found = (joint / joint.sum(axis=0)) @ seen
    return found
