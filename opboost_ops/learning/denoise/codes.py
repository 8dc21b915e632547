"""The label holder's own columns as codes, learnt from training rows and kept for all others."""

from dataclasses import dataclass

import numpy as np

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
