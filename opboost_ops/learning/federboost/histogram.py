"""Trees from histograms of binned columns, with integer sums.

Each row's gradient and hessian is rounded to an integer before summation. Sums therefore do not
depend on the order of rows, and several parties grow the same trees, to the bit, as one party with
all their rows (FederBoost, Protocols 4 and 5).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Literal

import numpy as np
from pydantic import Field
from scipy.sparse import csc_array

from opboost_ops.config.schema import Record
from opboost_ops.learning.federboost.objectives import ONE

#: Sums per bin: gradients, hessians and the number of rows.
SUMS = 3

#: Rows that are added up at a time, which limits memory.
_BLOCK = 1 << 16


#: A number of rows, and a part of a score, within the bounds of honest sums. Beyond them, scores
#: could overflow at the parties with a row in a leaf only, which would reveal those parties.
Count = Annotated[int, Field(ge=0, lt=2**63)]
Weight = Annotated[float, Field(ge=-(2.0**40), le=2.0**40)]


class Leaf(Record):
    """The value of a node and the sums of its rows.

    Attributes:
        value: Contribution to the score, multiplied by the learning rate.
        hessian: Sum of hessians.
        rows: Number of rows.
    """

    value: Weight
    hessian: float
    rows: Count


class Split(Record):
    """A split: rows with a bin of at most ``bin`` go left, missing values as ``missing`` says.

    If values of the column may be missing, they are in its last bin.
    """

    feature: int
    bin: int
    gain: float
    left: Leaf
    right: Leaf
    missing: Literal["left", "right"] = "left"

    def goes_left(self, bins: np.ndarray, missing: int | None) -> np.ndarray:
        """Return a mask of the rows that go left, shape (n,).

        Args:
            bins: Bins of the split's column, shape (n,).
            missing: The bin of missing values; None if no value may be missing.
        """
        left = bins <= self.bin
        if missing is not None and self.missing == "left":
            left |= bins == missing
        return np.asarray(left)


@dataclass(frozen=True)
class Growth:
    """Limits and constants of growing trees.

    Attributes:
        depth: Levels of splits.
        learning_rate: Shrinkage.
        penalty: Lambda of equations 4 and 5.
        min_node_rows: Least rows of a node.
    """

    depth: int
    learning_rate: float
    penalty: float
    min_node_rows: int


@dataclass(eq=False)
class Tree:
    """A growing tree, whose nodes are numbered in order of creation.

    Attributes:
        leaves: Value and sums of each node.
        splits: The split of each inner node, with the numbers of its children.
        open: Nodes that the next level may split.
    """

    leaves: list[Leaf]
    splits: dict[int, tuple[Split, int, int]] = field(default_factory=dict)
    open: list[int] = field(default_factory=list)

    @classmethod
    def from_root(cls, root: Leaf) -> "Tree":
        """Return a tree of a single node, which the first level may split."""
        return cls([root], {}, [0])

    def grow(self, splits: Sequence[Split | None], growth: Growth, last: bool) -> None:
        """Add the splits of one level.

        Args:
            splits: One per open node; None if it stays a leaf.
            growth: Limits of growing trees.
            last: There is no further level.
        """
        new: list[int] = []
        for node, split in zip(self.open, splits, strict=True):
            if split is None:
                continue
            left, right = len(self.leaves), len(self.leaves) + 1
            self.leaves += [split.left, split.right]
            self.splits[node] = (split, left, right)
            enough = 2 * growth.min_node_rows
            new += [n for n in (left, right) if self.leaves[n].rows >= enough]
        self.open = [] if last else new


class Rows:
    """Binned rows of one party.

    Args:
        bins: Bin of each row by feature, shape (features, n), integers from 0.
        widths: Number of bins per feature.
        keeps: Per feature, True if its last bin contains missing values; empty if all are False.
    """

    def __init__(self, bins: np.ndarray, widths: Sequence[int], keeps: Sequence[bool] = ()) -> None:
        self.widths = tuple(widths)
        self.keeps = tuple(keeps) or (False,) * len(self.widths)
        self.bins = bins
        self.count = bins.shape[1]
        begins = np.cumsum([0, *self.widths[:-1]])
        #: Bins numbered across all features, shape (n, features).
        self.cells = np.ascontiguousarray((bins + begins[:, None]).T, dtype=np.int32)


@dataclass(frozen=True, eq=False)
class Derivatives:
    """Gradients and hessians as integers for summation.

    Attributes:
        table: Gradient, hessian and 1 per row; int64, shape (n, 3).
    """

    table: np.ndarray

    @classmethod
    def of(cls, gradient: np.ndarray, hessian: np.ndarray) -> "Derivatives":
        """Combine the gradients and hessians of rows, int64, shape (n,) each."""
        return cls(np.stack([gradient, hessian, np.ones_like(gradient)], axis=1))


def histograms(
    rows: Rows, derivatives: Derivatives, nodes: np.ndarray, open_nodes: Sequence[int]
) -> np.ndarray:
    """Return the histograms of one level, for all open nodes and features.

    Args:
        rows: Binned rows.
        derivatives: Derivatives of the same rows.
        nodes: Node of each row, shape (n,).
        open_nodes: The nodes that may be split.

    Returns:
        int64, flattened: by node, feature and bin, then gradient, hessian and count.
    """
    count, width = len(open_nodes), sum(rows.widths)
    slot = np.full(max(nodes.max(initial=0), *open_nodes, 0) + 1, count, dtype=np.int32)
    slot[list(open_nodes)] = np.arange(count)
    slots = slot[nodes]
    here = np.flatnonzero(slots < count)
    sums = np.zeros((count * width, SUMS), dtype=np.int64)
    features = len(rows.widths)
    for begin in range(0, here.size, _BLOCK):
        block = here[begin : begin + _BLOCK]
        cells = rows.cells[block] + (slots[block] * np.int32(width))[:, None]
        # Each row is a sparse column of ones at its cells, so the product sums by cell in integers.
        ends = np.arange(0, cells.size + 1, features, dtype=np.int32)
        at = csc_array(
            (np.ones(cells.size, dtype=np.int64), cells.ravel(), ends),
            shape=(len(sums), len(cells)),
        )
        sums += at @ derivatives.table[block]
    return sums.ravel()


def size_of(widths: Sequence[int], open_nodes: Sequence[int]) -> int:
    """Return the number of integers in the histograms of a level."""
    return len(open_nodes) * sum(widths) * SUMS


def decide(
    sums: np.ndarray, widths: Sequence[int], keeps: Sequence[bool], growth: Growth
) -> tuple[list[Leaf], list[Split | None]]:
    """Return the best split of each open node from the sums of all parties.

    The gain is G_L^2/(H_L+lambda) + G_R^2/(H_R+lambda) - G^2/(H+lambda): equation 5 with the
    parent's term subtracted (docs/reference/errata.md). Among equal gains, the lowest bin of the
    first feature wins, with missing values to the left.

    Args:
        sums: Sums of `histograms` over all parties.
        widths: Number of bins per feature.
        keeps: Per feature, True if its last bin contains missing values.
        growth: Limits of growing trees.

    Returns:
        The value and sums of each open node, and its split; None if no split has a positive gain
        and enough rows on both sides.
    """
    table = sums.reshape(-1, sum(widths), SUMS)
    whole = table[:, : widths[0]].sum(axis=1)
    left = left_sums(table, widths, keeps)
    right = whole[:, None] - left
    gains = _score(left, growth) + _score(right, growth) - _score(whole[:, None], growth)
    least = np.minimum(left[..., 2], right[..., 2])
    gains[(least < max(growth.min_node_rows, 1)) | ~(gains > 0)] = -np.inf
    nodes: list[Leaf] = [make_leaf(total, growth) for total in whole]
    return nodes, best_splits(gains, left, right, widths, lambda sums: make_leaf(sums, growth))


def left_sums(table: np.ndarray, widths: Sequence[int], keeps: Sequence[bool]) -> np.ndarray:
    """Return the sums of the rows that go left at each bin, for both directions of missing values.

    Args:
        table: Sums by node and bin, shape (nodes, bins of all columns, sums).
        widths: Number of bins per column.
        keeps: Per column, True if its last bin contains missing values.

    Returns:
        Shape (2, nodes, bins, sums), with missing values to the left and to the right; shape
        (1, nodes, bins, sums) if no values may be missing. At a bin of missing values all rows go
        left, which is no split.
    """
    parts = np.split(table, np.cumsum(widths)[:-1], axis=1)
    right = [np.cumsum(part, axis=1) for part in parts]
    if not any(keeps):
        return np.concatenate(right, axis=1)[None]
    left = [
        np.concatenate([sums[:, :-1] + part[:, -1:], sums[:, -1:]], axis=1) if keep else sums
        for sums, part, keep in zip(right, parts, keeps, strict=True)
    ]
    return np.stack([np.concatenate(left, axis=1), np.concatenate(right, axis=1)])


def best_splits(
    gains: np.ndarray,
    left: np.ndarray,
    right: np.ndarray,
    widths: Sequence[int],
    leaf: Callable[[np.ndarray], Leaf],
) -> list[Split | None]:
    """Return the split with the greatest gain per node; None if all gains are minus infinity.

    Args:
        gains: Gains by direction of missing values, shape (1 or 2, nodes, bins of all columns).
        left: Sums of the rows that go left, shape (1 or 2, nodes, bins, sums).
        right: Sums of the rows that go right, same shape.
        widths: Number of bins per column.
        leaf: Makes a node from its sums.
    """
    features = np.repeat(np.arange(len(widths)), widths)
    begins = np.cumsum([0, *widths[:-1]])
    splits: list[Split | None] = []
    for node, best in enumerate(gains.max(axis=0).argmax(axis=1)):
        direction = int(gains[:, node, best].argmax())
        at = (direction, node, best)
        if gains[at] == -np.inf:
            splits.append(None)
            continue
        feature = int(features[best])
        splits.append(
            Split(
                feature=feature,
                bin=int(best - begins[feature]),
                gain=float(gains[at]),
                left=leaf(left[at]),
                right=leaf(right[at]),
                missing="right" if direction else "left",
            )
        )
    return splits


def make_leaf(sums: np.ndarray, growth: Growth) -> Leaf:
    """Return a node with the value -G / (H + lambda) (equation 4) times the learning rate.

    Args:
        sums: Sums of gradients, hessians and rows, int64, shape (3,).
        growth: Penalty and learning rate.
    """
    gradient, hessian = float(sums[0]) / ONE, float(sums[1]) / ONE
    weight = hessian + growth.penalty
    value = -growth.learning_rate * gradient / weight if weight > 0 else 0.0
    return Leaf(value=value, hessian=hessian, rows=int(sums[2]))


def apply(rows: Rows, nodes: np.ndarray, tree: Tree, before: Sequence[int]) -> np.ndarray:
    """Move rows to the children of the nodes that the last level split.

    Args:
        rows: Binned rows.
        nodes: Node of each row before the split, shape (n,).
        tree: The tree after `Tree.grow`.
        before: The nodes that were open before `Tree.grow`.

    Returns:
        Node of each row, shape (n,).
    """
    moved = nodes.copy()
    for node in before:
        if node in tree.splits:
            split, left, right = tree.splits[node]
            at = np.flatnonzero(nodes == node)
            gap = rows.widths[split.feature] - 1 if rows.keeps[split.feature] else None
            goes_left = split.goes_left(rows.bins[split.feature, at], gap)
            moved[at] = np.where(goes_left, left, right)
    return moved


def _score(sums: np.ndarray, growth: Growth) -> np.ndarray:
    gradient, hessian = (sums[..., i].astype(np.float64) / ONE for i in (0, 1))
    weight = hessian + growth.penalty
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(weight > 0, gradient * gradient / weight, 0.0)
