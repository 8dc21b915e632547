"""Gradients and hessians of the horizontal booster, as integers in fixed point.

Every party computes them from its own rows and the common scores. What is added up afterwards is
bounded by declaration, never by looking at the data: `require_room`.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from opboost_ops.errors import ConfigError, ContractError

#: The fixed point: a gradient of 1.0.
ONE = 1 << 32

#: Most that the integer of one row may be.
BOUND = 4 * ONE

#: Sums are below it, so that a sum modulo 2^64 tells the sum itself.
_LIMIT = 1 << 63

#: More rows of all parties together are refused by `require_room`.
MOST_ROWS = (_LIMIT - 1) // BOUND


@dataclass(frozen=True)
class Objective:
    """A loss and its derivatives: logistic, softmax or square.

    Attributes:
        task: What is learnt.
        classes: How many classes; 0 in regression.
        bounds: Declared bounds of the label, in regression. Gradients are in units of their
            distance, so that the fixed point fits.
    """

    task: Literal["binary", "multiclass", "regression"]
    classes: int = 0
    bounds: tuple[float, float] | None = None

    @property
    def trees(self) -> int:
        """How many trees a round has: one, or one a class."""
        return self.classes if self.task == "multiclass" else 1

    @property
    def unit(self) -> float:
        """The value of a score of 1 in the label's unit."""
        return self.bounds[1] - self.bounds[0] if self.bounds else 1.0

    def raw(self, score: float) -> float:
        """A score as the model's file has it: in the label's own unit, in regression."""
        return score * self.unit + (self.bounds[0] if self.bounds else 0.0)

    @property
    def steepest(self) -> tuple[int, int]:
        """Most that a row's gradient and hessian may be, in fixed point, whatever the data."""
        if self.task == "regression":
            return BOUND, ONE  # A score may lie beyond the label's bounds.
        return ONE, ONE // 4 if self.task == "binary" else ONE // 2

    @property
    def facts(self) -> int:
        """How many integers `tell` gives."""
        return 2 if self.task == "regression" else 1 + self.classes

    def scaled(self, label: np.ndarray) -> np.ndarray:
        """Labels as the booster takes them: class indices, or shares of the declared range.

        Args:
            label: Class indices or numbers, shape (n,).

        Raises:
            ContractError: A number lies outside the declared bounds.
        """
        if self.bounds is None:
            return label
        if len(label) and not (self.bounds[0] <= label.min() and label.max() <= self.bounds[1]):
            raise ContractError(
                "The label holds numbers outside its declared bounds.",
                "Declare wider bounds, or correct the table.",
            )
        return (label - self.bounds[0]) / self.unit

    def tell(self, label: np.ndarray) -> np.ndarray:
        """Components of the initial score: rows, and rows of each class or the labels' sum.

        Args:
            label: Scaled labels, shape (n,).
        """
        if self.task == "regression":
            return np.array([len(label), int(_fixed(label).sum())], dtype=np.int64)
        counts = np.bincount(label.astype(np.int64), minlength=self.classes)
        return np.array([len(label), *counts], dtype=np.int64)

    def initial(self, facts: Sequence[int]) -> list[float]:
        """The constant initial score of each tree of a round.

        Args:
            facts: The sum of what all parties `tell`.

        Raises:
            ContractError: There is no row, or a single class.
        """
        rows = facts[0]
        if not rows or (self.task != "regression" and sum(1 for c in facts[1:] if c) < 2):
            raise ContractError(
                "All parties together have no rows, or rows of a single class.",
                "Check the label's declaration and the tables.",
            )
        if self.task == "regression":
            return [facts[1] / ONE / rows]
        shares = [max(count / rows, 1e-15) for count in facts[1:]]
        if self.task == "binary":
            return [float(np.log(shares[1] / shares[0]))]
        return [float(np.log(share)) for share in shares]

    def derivatives(self, scores: np.ndarray, label: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Gradients and hessians of the loss by the scores, in fixed point.

        Args:
            scores: float64, shape (trees, n).
            label: Scaled labels, shape (n,).

        Returns:
            Two int64 arrays, shape (trees, n); none passes `BOUND`.
        """
        if self.task == "regression":
            return _fixed(scores - label), np.full(scores.shape, ONE, dtype=np.int64)
        if self.task == "binary":
            chance = 1.0 / (1.0 + np.exp(-scores))
            return _fixed(chance - label), _fixed(chance * (1.0 - chance))
        shifted = np.exp(scores - scores.max(axis=0))
        chance = shifted / shifted.sum(axis=0)
        truth = np.arange(self.classes)[:, None] == label
        # K / (K - 1), as in LightGBM: the diagonal of the softmax's hessian, made up for.
        factor = self.classes / (self.classes - 1)
        return _fixed(chance - truth), _fixed(factor * chance * (1.0 - chance))


def require_room(rows: int, parties: int) -> None:
    """Refuse a table whose sums might not fit below 2^63 beside those of as many others.

    Args:
        rows: Of this party's table.
        parties: How many parties add up.

    Raises:
        ConfigError: They might not.
    """
    if BOUND * rows * parties >= _LIMIT:
        raise ConfigError(
            f"Sums over {rows:,} rows at each of {parties} parties might overflow 64 bits.",
            "Take part with fewer rows.",
        )


def _fixed(values: np.ndarray) -> np.ndarray:
    # Clipped and not refused: a score follows from decisions of the active party, and which of the
    # parties refuses would say who has a row in a leaf.
    clipped: np.ndarray = np.rint(np.clip(values * ONE, -BOUND, BOUND))
    return clipped.astype(np.int64)
