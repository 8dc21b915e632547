"""Rows as codes: released outputs, the label holder's own columns, and levels of the label."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from opboost_ops.learning.boosters.backend import Frame
from opboost_ops.mechanisms.channel import Channel

#: Cells of an own number, with equal shares of rows; a missing value has a code of its own.
CELLS = 8

#: Most codes of a nominal column; the rarest categories share the last code.
_CATEGORIES = 64

#: The value of a missing category, which is NaN elsewhere.
_MISSING = -1.0


@dataclass(frozen=True)
class Cells:
    """Codes of a numeric column.

    Attributes:
        edges: Edges between cells, ascending; an edge belongs to the lower cell.
        present: The cells that occur in training rows, ascending.
        missing: Some training rows lack a value, which has the last code.
    """

    edges: tuple[float, ...]
    present: tuple[int, ...]
    missing: bool

    @classmethod
    def fit(cls, column: np.ndarray, count: int = CELLS) -> "Cells":
        """Return cells with equal shares of rows, as far as ties allow.

        Args:
            column: Values of training rows, NaN if missing, shape (n,).
            count: Number of cells.
        """
        values = column[~np.isnan(column)]
        missing = len(values) < len(column)
        if not len(values):
            return cls((), (), missing)
        edges = np.unique(np.quantile(values, np.arange(1, count) / count))
        present = np.unique(np.searchsorted(edges, values))
        return cls(tuple(edges.tolist()), tuple(present.tolist()), missing)

    @property
    def size(self) -> int:
        """The number of codes."""
        return len(self.present) + self.missing

    def codes(self, column: np.ndarray) -> np.ndarray:
        """Return codes from 0, int64, shape (n,); `size` for a missing value unknown in training.

        Args:
            column: Values of any rows.
        """
        is_missing = np.isnan(column)
        if not self.present:
            return np.where(is_missing & self.missing, 0, self.size)
        cell = np.searchsorted(np.array(self.edges), column)
        code = np.searchsorted(np.array(self.present), cell)
        return np.where(is_missing, len(self.present), np.minimum(code, len(self.present) - 1))


@dataclass(frozen=True)
class Categories:
    """Codes of a nominal column, most frequent category first.

    Attributes:
        values: Values of training rows, ascending; -1 for missing.
        places: Code of each value.
    """

    values: tuple[float, ...]
    places: tuple[int, ...]

    @classmethod
    def fit(cls, column: np.ndarray) -> "Categories":
        """Return codes by frequency.

        Args:
            column: Values of training rows, NaN if missing, shape (n,).
        """
        values, counts = np.unique(_fill_missing(column), return_counts=True)
        order = np.argsort(-counts, kind="stable")
        places = np.empty(len(order), dtype=np.int64)
        places[order] = np.minimum(np.arange(len(order)), _CATEGORIES - 1)
        return cls(tuple(values.tolist()), tuple(places.tolist()))

    @property
    def size(self) -> int:
        """The number of codes."""
        return min(len(self.values), _CATEGORIES)

    def codes(self, column: np.ndarray) -> np.ndarray:
        """Return codes from 0, int64, shape (n,); `size` for a category unknown in training.

        Args:
            column: Values of any rows.
        """
        values = np.array(self.values)
        filled = _fill_missing(column)
        at = np.minimum(np.searchsorted(values, filled), len(values) - 1)
        return np.where(values[at] == filled, np.array(self.places)[at], self.size)


@dataclass(frozen=True, eq=False)
class Rows:
    """Rows to which latent classes are fitted.

    Attributes:
        noisy: Released outputs from 0 by column, int32, shape (n,).
        laws: Pr[output | value] by the same columns, float64, shape (k, k).
        own: Codes from 0 of all other columns, int64, shape (n,).
        sizes: Number of codes of each of them.
        level: Level of the label from 0, int64, shape (n,).
        levels: Number of levels.
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
        """Return some of the rows.

        Args:
            where: Positions, a mask or a slice.
        """
        return replace(
            self,
            noisy={name: codes[where] for name, codes in self.noisy.items()},
            own={name: codes[where] for name, codes in self.own.items()},
            level=self.level[where],
        )

    def labelled(self, level: np.ndarray, levels: int) -> "Rows":
        """Return the same rows with other levels of the label."""
        return replace(self, level=level, levels=levels)


def samplable_laws(frame: Frame, channels: Mapping[str, Channel]) -> dict[str, np.ndarray]:
    """Return the distributions of columns whose ranks determine the released output.

    Args:
        frame: Training rows.
        channels: The channel of each released column.

    Returns:
        Pr[output | value] by column, with one value per output; values of a bucket have equal
        rows. Omitted are columns with an output that was never released, because only their holder
        knows the output of a rank, and columns with outputs outside their domain.
    """
    laws = {}
    for name, channel in channels.items():
        ranks = frame.matrix[:, frame.names.index(name)]
        among = np.isin(channel.outputs, channel.inputs).all()
        if among and len(np.unique(ranks)) == len(channel.outputs):
            laws[name] = channel.square()
    return laws


def encode_rows(frame: Frame, laws: Mapping[str, np.ndarray]) -> Rows:
    """Encode a frame's rows, all with level 0 of the label.

    Args:
        frame: Training rows.
        laws: Pr[output | value] of the columns to sample.
    """
    noisy, own, sizes = {}, {}, {}
    for i, name in enumerate(frame.names):
        column = frame.matrix[:, i]
        if name in laws:
            noisy[name] = column.astype(np.int32) - 1
        else:
            kind = Categories if name in frame.categorical else Cells
            coding: Cells | Categories = kind.fit(column)
            own[name], sizes[name] = coding.codes(column), coding.size
    return Rows(noisy, dict(laws), own, sizes, np.zeros(len(frame.matrix), dtype=np.int64), 1)


def quantile_levels(values: np.ndarray, count: int) -> tuple[np.ndarray, int]:
    """Return levels with equal shares of rows, as far as ties allow, and the number of levels."""
    cells = Cells.fit(values, count)
    return cells.codes(values), cells.size


def _fill_missing(column: np.ndarray) -> np.ndarray:
    return np.where(np.isnan(column), _MISSING, column)
