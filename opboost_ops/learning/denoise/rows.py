"""Rows as codes: released cells, the label holder's own columns, and the label's level."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from opboost_ops.learning.boosters.backend import Frame
from opboost_ops.mechanisms.channel import Channel

#: Cells of an own number, of equal shares; a missing value has a code of its own.
CELLS = 8

#: Most codes of an own column without order; the rarest categories share the last one.
_CATEGORIES = 64

#: Stands for a missing category, which is NaN elsewhere.
_MISSING = -1.0


@dataclass(frozen=True)
class Cells:
    """Codes of a number.

    Attributes:
        edges: Between cells, rising; an edge lies in the lower one.
        present: The cells that training rows have, rising.
        missing: Whether training rows lack it: then that is the last code.
    """

    edges: tuple[float, ...]
    present: tuple[int, ...]
    missing: bool

    @classmethod
    def learnt(cls, column: np.ndarray, count: int = CELLS) -> "Cells":
        """Cells of equal shares, as far as ties allow.

        Args:
            column: Of training rows, NaN where it is missing, shape (n,).
            count: How many.
        """
        there = column[~np.isnan(column)]
        missing = len(there) < len(column)
        if not len(there):
            return cls((), (), missing)
        edges = np.unique(np.quantile(there, np.arange(1, count) / count))
        present = np.unique(np.searchsorted(edges, there))
        return cls(tuple(edges.tolist()), tuple(present.tolist()), missing)

    @property
    def size(self) -> int:
        """How many codes there are."""
        return len(self.present) + self.missing

    def codes(self, column: np.ndarray) -> np.ndarray:
        """Codes from 0, int64, shape (n,); `size` where training rows never lacked a value.

        Args:
            column: Of any rows.
        """
        gone = np.isnan(column)
        if not self.present:
            return np.where(gone & self.missing, 0, self.size)
        place = np.searchsorted(np.array(self.edges), column)
        code = np.searchsorted(np.array(self.present), place)
        return np.where(gone, len(self.present), np.minimum(code, len(self.present) - 1))


@dataclass(frozen=True)
class Categories:
    """Codes of a column without order, the commonest first.

    Attributes:
        values: Of training rows, rising; -1 for missing.
        places: The code of each.
    """

    values: tuple[float, ...]
    places: tuple[int, ...]

    @classmethod
    def learnt(cls, column: np.ndarray) -> "Categories":
        """Codes by how common a category is.

        Args:
            column: Of training rows, NaN where it is missing, shape (n,).
        """
        values, counts = np.unique(_filled(column), return_counts=True)
        often = np.argsort(-counts, kind="stable")
        places = np.empty(len(often), dtype=np.int64)
        places[often] = np.minimum(np.arange(len(often)), _CATEGORIES - 1)
        return cls(tuple(values.tolist()), tuple(places.tolist()))

    @property
    def size(self) -> int:
        """How many codes there are."""
        return min(len(self.values), _CATEGORIES)

    def codes(self, column: np.ndarray) -> np.ndarray:
        """Codes from 0, int64, shape (n,); `size` for what no training row had.

        Args:
            column: Of any rows.
        """
        values = np.array(self.values)
        filled = _filled(column)
        at = np.minimum(np.searchsorted(values, filled), len(values) - 1)
        return np.where(values[at] == filled, np.array(self.places)[at], self.size)


def _filled(column: np.ndarray) -> np.ndarray:
    return np.where(np.isnan(column), _MISSING, column)


@dataclass(frozen=True, eq=False)
class Rows:
    """Rows to which the latent classes are fitted.

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
    cells = Cells.learnt(values, count)
    return cells.codes(values), cells.size
