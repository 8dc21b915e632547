"""Rows as codes: released cells, the label holder's own columns, and the label's level."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from opboost_ops.learning.boosters.frame import Frame
from opboost_ops.learning.denoise.codes import Categories, Cells
from opboost_ops.mechanisms.channel import Channel


@dataclass(frozen=True, eq=False)
class Rows:
    """What the latent classes are fitted to.

    Attributes:
        noisy: Released outputs from 0, int32, shape (n,), by column.
        laws: Pr[output | value], float64, shape (k, k), by the same columns.
        own: Codes from 0 of all other columns, int64, shape (n,), by column.
        sizes: How many codes each of them has.
        level: The label's level, from 0, int64, shape (n,).
        levels: How many there are.
    """

    noisy: Mapping[str, np.ndarray]
    laws: Mapping[str, np.ndarray]
    own: Mapping[str, np.ndarray]
    sizes: Mapping[str, int]
    level: np.ndarray
    levels: int

    def __len__(self) -> int:
        return len(self.level)

    def at(self, where: np.ndarray | slice) -> "Rows":
        """Some of the rows.

        Args:
            where: Their positions, a mask or a slice.
        """
        return replace(
            self,
            noisy={name: codes[where] for name, codes in self.noisy.items()},
            own={name: codes[where] for name, codes in self.own.items()},
            level=self.level[where],
        )

    def labelled(self, level: np.ndarray, levels: int) -> "Rows":
        """The same rows with other levels of the label."""
        return replace(self, level=level, levels=levels)


def drawable(frame: Frame, channels: Mapping[str, Channel]) -> dict[str, np.ndarray]:
    """The laws of columns whose ranks say which output was released.

    Args:
        frame: Training rows.
        channels: What released them, by column.

    Returns:
        Pr[output | value] by column, one value for each output: those of a bucket have the same
        row. A column of which an output was never released is not among them: nobody but its
        holder knows then which output a rank is. Neither is one whose outputs are no values of its
        domain.
    """
    laws = {}
    for name, channel in channels.items():
        ranks = frame.matrix[:, frame.names.index(name)]
        among = np.isin(channel.outputs, channel.inputs).all()
        if among and len(np.unique(ranks)) == len(channel.outputs):
            laws[name] = channel.square()
    return laws


def rows_of(frame: Frame, laws: Mapping[str, np.ndarray]) -> Rows:
    """A frame's rows as codes; the label's level is not set yet.

    Args:
        frame: Training rows.
        laws: Of the columns that are sampled.
    """
    noisy, own, sizes = {}, {}, {}
    for i, name in enumerate(frame.names):
        column = frame.matrix[:, i]
        if name in laws:
            noisy[name] = column.astype(np.int32) - 1
        else:
            kind = Categories if name in frame.categorical else Cells
            coding: Cells | Categories = kind.learnt(column)
            own[name], sizes[name] = coding.codes(column), coding.size
    return Rows(noisy, dict(laws), own, sizes, np.zeros(len(frame.matrix), dtype=np.int64), 1)


def quantile_levels(values: np.ndarray, count: int) -> tuple[np.ndarray, int]:
    """Levels of equal shares, as far as ties allow, and how many there are."""
    found = Cells.learnt(values, count)
    return found.codes(values), found.size
