"""Gradients and hessians of horizontal boosting, as integers in fixed point.

Each party computes them from its own rows and the common scores. Their sums have bounds that depend
on declarations only, never on data (`require_room`).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from opboost_ops.errors import ConfigError, ContractError

#: A gradient of 1.0 in fixed point.
ONE = 1 << 32

#: The greatest absolute integer of one row.
BOUND = 4 * ONE

#: Sums stay below this limit, so a sum modulo 2^64 determines the sum.
_LIMIT = 1 << 63

#: The greatest number of rows of all parties together.
MAX_ROWS = (_LIMIT - 1) // BOUND


@dataclass(frozen=True)
class Objective:
    """A loss and its derivatives: logistic, softmax or squared.

    Attributes:
        task: The task of the label.
        classes: Number of classes; 0 in regression.
        bounds: Declared bounds of a numeric label. Their distance is the unit of gradients, which
            keeps them in the range of the fixed point.
    """

    task: Literal["binary", "multiclass", "regression"]
    classes: int = 0
    bounds: tuple[float, float] | None = None

    @property
    def trees(self) -> int:
        """The number of trees per boosting round: one, or one per class."""
        return self.classes if self.task == "multiclass" else 1

    @property
    def unit(self) -> float:
        """A score of 1 in the label's unit."""
        return self.bounds[1] - self.bounds[0] if self.bounds else 1.0

    def raw(self, score: float) -> float:
        """Return a score as in the model file; in regression, in the label's unit."""
        return score * self.unit + (self.bounds[0] if self.bounds else 0.0)

    @property
    def max_derivatives(self) -> tuple[int, int]:
        """Bounds of a row's gradient and hessian for any data, in fixed point."""
        if self.task == "regression":
            return BOUND, ONE  # A score may lie beyond the label's bounds.
        return ONE, ONE // 4 if self.task == "binary" else ONE // 2

    @property
    def totals_count(self) -> int:
        """The number of integers in `totals`."""
        return 2 if self.task == "regression" else 1 + self.classes

    def scaled(self, label: np.ndarray) -> np.ndarray:
        """Return labels for the booster: class indices, or shares of the declared range.

        Args:
            label: Class indices or numbers, shape (n,).

        Raises:
            ContractError: A number lies outside the declared bounds.
        """
        if self.bounds is None:
            return label
        if len(label) and not (self.bounds[0] <= label.min() and label.max() <= self.bounds[1]):
            raise ContractError(
                "The label has values outside its declared bounds.",
                "Declare wider bounds, or correct the table.",
            )
        return (label - self.bounds[0]) / self.unit

    def totals(self, label: np.ndarray) -> np.ndarray:
        """Return the row count, and the rows of each class or the sum of labels.

        Args:
            label: Scaled labels, shape (n,).
        """
        if self.task == "regression":
            return np.array([len(label), int(_to_fixed_point(label).sum())], dtype=np.int64)
        counts = np.bincount(label.astype(np.int64), minlength=self.classes)
        return np.array([len(label), *counts], dtype=np.int64)

    def initial(self, facts: Sequence[int]) -> list[float]:
        """Return the initial score of each tree of a round.

        Args:
            facts: The sum of the `totals` of all parties.

        Raises:
            ContractError: There are no rows, or only a single class.
        """
        rows = facts[0]
        if not rows or (self.task != "regression" and sum(1 for c in facts[1:] if c) < 2):
            raise ContractError(
                "All parties together have no rows, or only rows of a single class.",
                "Check the declaration of the label and the tables.",
            )
        if self.task == "regression":
            return [facts[1] / ONE / rows]
        shares = [max(count / rows, 1e-15) for count in facts[1:]]
        if self.task == "binary":
            return [float(np.log(shares[1] / shares[0]))]
        return [float(np.log(share)) for share in shares]

    def derivatives(self, scores: np.ndarray, label: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return gradients and hessians of the loss at the scores, in fixed point.

        Args:
            scores: float64, shape (trees, n).
            label: Scaled labels, shape (n,).

        Returns:
            Two int64 arrays, shape (trees, n), with absolute values of at most `BOUND`.
        """
        if self.task == "regression":
            return _to_fixed_point(scores - label), np.full(scores.shape, ONE, dtype=np.int64)
        if self.task == "binary":
            chance = 1.0 / (1.0 + np.exp(-scores))
            return _to_fixed_point(chance - label), _to_fixed_point(chance * (1.0 - chance))
        shifted = np.exp(scores - scores.max(axis=0))
        chance = shifted / shifted.sum(axis=0)
        truth = np.arange(self.classes)[:, None] == label
        # As in LightGBM, K / (K - 1) compensates for using only the diagonal of the hessian.
        factor = self.classes / (self.classes - 1)
        return _to_fixed_point(chance - truth), _to_fixed_point(factor * chance * (1.0 - chance))


def require_room(rows: int, parties: int) -> None:
    """Check that sums stay below 2^63 if all parties have tables of this size.

    Args:
        rows: Rows of this party's table.
        parties: Number of parties.

    Raises:
        ConfigError: The sums could overflow.
    """
    if BOUND * rows * parties >= _LIMIT:
        raise ConfigError(
            f"Sums over {rows:,} rows at each of {parties} parties could overflow 64 bits.",
            "Take part with fewer rows.",
        )


def _to_fixed_point(values: np.ndarray) -> np.ndarray:
    # Clip instead of failing: scores follow from the active party's decisions, and a failure would
    # reveal which party has a row in a leaf.
    clipped: np.ndarray = np.rint(np.clip(values * ONE, -BOUND, BOUND))
    return clipped.astype(np.int64)
