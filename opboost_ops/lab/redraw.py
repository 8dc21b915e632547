"""Released values drawn back: what a known channel tells of the values behind them.

Trees that learn on randomised values see effects that are washed out, most of all those of rare
values, and so rank clear rows badly. The channel is public, and the label holder has the labels:
from both follows the law of the values behind what was released. Whatever is made of a release
costs nothing: this is post-processing, in the label holder's own hands.
"""

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from opboost_ops.boosting import trainer
from opboost_ops.boosting.denoise.shares import counted, shares
from opboost_ops.boosting.frame import Frame, Parameters
from opboost_ops.boosting.metrics import Task
from opboost_ops.mechanisms.channel import Channel

#: At most so many groups of what the other columns say of a cell, within each class of the label,
#: and at least so many rows in one of them, on average: few rows give worse estimates than none.
_STRATA, _ROWS = 5, 2_000

#: Groups of a label that is a number.
_LEVELS = 5

_GUESS = Parameters("regression", classes=0, trees=15, learning_rate=0.3, depth=3, seed=0)


def redrawn(
    frame: Frame,
    task: Task,
    label: np.ndarray,
    channels: Mapping[str, Channel],
    words: Mapping[str, np.ndarray],
) -> Frame:
    """Replace each released cell by a draw from the law of the value behind it.

    That law is Pr[x | y, group], proportional to Pr[y | x] of the channel times Pr[x | group] as
    estimated from all that was released of the group. Rows of a group have one label, and the
    other columns say about the same of the cell.

    Args:
        frame: Training rows.
        task: What is learnt.
        label: Class indices, or numbers, shape (n,).
        channels: What released them, by column; others stay as they are.
        words: Uniform 64-bit words that nothing else depends on, shape (n,), by column.

    Returns:
        Another frame of the same names. A column of which an output was never released stays as it
        is: nobody but its holder knows then which output a rank is. So does one whose outputs are
        no values of its domain (Piecewise).
    """
    levels = _levels(label, _LEVELS) if task == "regression" else label
    strata = min(_STRATA, len(label) // (_ROWS * len(np.unique(levels))))
    matrix = frame.matrix.copy(order="F")
    for name, channel in channels.items():
        column = frame.names.index(name)
        ranks = frame.matrix[:, column].astype(np.int64)
        among = np.isin(channel.outputs, channel.inputs).all()
        if among and len(np.unique(ranks)) == len(channel.outputs):
            others = [i for i in range(len(frame.names)) if i != column]
            guess = _guess(frame, others, ranks, strata)
            groups = levels.astype(np.int64) * _STRATA + guess
            matrix[:, column] = _draw(ranks, groups, channel.square(), words[name])
    return replace(frame, matrix=matrix)


def _guess(frame: Frame, others: list[int], ranks: np.ndarray, strata: int) -> np.ndarray:
    """Which of some groups of equal size a cell is in by what the other columns say of it."""
    names = tuple(frame.names[i] for i in others)
    if not names or strata < 2:
        return np.zeros(len(ranks), dtype=np.int64)
    rest = Frame(
        names,
        np.asfortranarray(frame.matrix[:, others]),
        tuple(name for name in frame.categorical if name in names),
        tuple(name for name in frame.ranked if name in names),
    )
    model = trainer.train(rest, ranks.astype(float), _GUESS)
    return _levels(trainer.predict(model, rest.matrix), strata)


def _levels(values: np.ndarray, count: int) -> np.ndarray:
    edges = np.quantile(values, np.arange(1, count) / count)
    return np.asarray(np.searchsorted(edges, values))


def _draw(ranks: np.ndarray, groups: np.ndarray, law: np.ndarray, words: np.ndarray) -> np.ndarray:
    uniform = words.astype(np.float64) / 2.0**64
    drawn = np.empty_like(ranks)
    count = int(groups.max()) + 1
    released = ranks - 1
    found = shares(counted(released, law.shape[1], groups, count), law)
    for group in np.unique(groups):
        mine = groups == group
        behind = found[:, group, None] * law
        steps = (behind / behind.sum(axis=0)).cumsum(axis=0)
        below = uniform[mine][None, :] > steps[:, released[mine]]
        drawn[mine] = np.minimum(below.sum(axis=0), len(law) - 1) + 1
    return drawn
