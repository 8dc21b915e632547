"""Candidate splits: fixed by declarations alone, never by the data."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from opboost_ops.errors import ContractError


@dataclass(frozen=True, eq=False)
class Candidates:
    """All splits that a tree may choose from. A row goes left where low <= code <= high.

    Attributes:
        names: Features.
        thresholds: Rising thresholds of each feature with an order; empty for a nominal one.
        categories: How many categories a nominal feature has; 0 for all others.
        feature: Of each candidate, its feature, int64, shape (c,).
        low: Its least code that goes left.
        high: Its greatest code that goes left.
        starts: Where each feature's codes begin when all features' are numbered through.
    """

    names: tuple[str, ...]
    thresholds: tuple[np.ndarray, ...]
    categories: tuple[int, ...]
    feature: np.ndarray
    low: np.ndarray
    high: np.ndarray
    starts: np.ndarray

    @classmethod
    def of(
        cls,
        names: Sequence[str],
        thresholds: Mapping[str, Sequence[float]],
        categories: Mapping[str, int],
    ) -> "Candidates":
        """All candidates of some features.

        Args:
            names: Features, in the frame's order.
            thresholds: Declared thresholds by feature: a value at most the threshold goes left.
            categories: How many declared categories a nominal feature has; each is a candidate.

        Raises:
            ContractError: A feature has neither, or thresholds that do not rise.
        """
        edges, counts, splits, sizes = [], [], [], []
        for i, name in enumerate(names):
            own = np.asarray(thresholds.get(name, ()), dtype=np.float64)
            count = categories.get(name, 0)
            if not (len(own) or count) or not (np.diff(own) > 0).all():
                raise ContractError(f"{name} has no declared candidate splits.")
            splits += [(i, 0, k) for k in range(len(own))] + [(i, k, k) for k in range(count)]
            edges.append(own)
            counts.append(count)
            # Codes: the thresholds below a value; or the category, and one code for all unknown.
            sizes.append(len(own) + 1 if len(own) else count + 1)
        feature, low, high = np.array(splits, dtype=np.int64).T
        starts = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
        return cls(tuple(names), tuple(edges), tuple(counts), feature, low, high, starts)

    def codes(self, matrix: np.ndarray) -> np.ndarray:
        """The codes of rows.

        Args:
            matrix: Values, and category codes from 0, NaN for unknown; shape (n, features).

        Returns:
            uint16, shape (n, features), a column after the other in memory.

        Raises:
            ContractError: A value of a feature with an order is missing.
        """
        codes = np.empty(matrix.shape, dtype=np.uint16, order="F")
        for i, (edges, count) in enumerate(zip(self.thresholds, self.categories, strict=True)):
            column = matrix[:, i]
            if count:
                valid = (column >= 0) & (column < count)
                codes[:, i] = np.where(valid, column, count)
            elif np.isnan(column).any():
                raise ContractError(
                    f"{self.names[i]} has missing values.", "Declare a fill for it."
                )
            else:
                codes[:, i] = np.searchsorted(edges, column, side="left")
        return codes
