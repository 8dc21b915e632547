"""Trees from histograms of binned integer columns: all sums are of integers.

Each row's gradient and hessian is rounded to an integer before anything is added up. So sums do
not depend on their order, and parties that add their vectors grow, to the bit, the trees that one
party grows on all their rows (FederBoost, Protocols 4 and 5).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Literal

import numpy as np
from pydantic import Field
from scipy.sparse import csc_array

from opboost_ops.config.schema import Record
from opboost_ops.learning.federboost.objectives import ONE

#: What a histogram holds of each bin: sums of gradients and hessians, and how many rows.
SUMS = 3

#: So many rows are added up at a time, for the sake of memory.
_BLOCK = 1 << 16


#: A number of rows, and a part of a score: no honest sum gives a larger one. Beyond, scores could
#: overflow at the parties that have a row in a leaf, and at no others.
Count = Annotated[int, Field(ge=0, lt=2**63)]
Weight = Annotated[float, Field(ge=-(2.0**40), le=2.0**40)]


class Leaf(Record):
    """Value and sums of a node's rows.

    Attributes:
        value: Its weight in the prediction, shrunk by the learning rate.
        hessian: Sum of its rows' hessians.
        rows: How many rows.
    """

    value: Weight
    hessian: float
    rows: Count


class Split(Record):
    """A decided split: rows whose bin is at most ``bin`` go left, and ``missing`` ones as it says.

    Where the column may miss values, its last bin holds the rows that do.
    """

    feature: int
    bin: int
    gain: float
    left: Leaf
    right: Leaf
    missing: Literal["left", "right"] = "left"

    def goes_left(self, bins: np.ndarray, missing: int | None) -> np.ndarray:
        """Which rows go left, boolean, shape (n,).

        Args:
            bins: Of the split's column, shape (n,).
            missing: The bin of missing values; None where none may be missing.
        """
        left = bins <= self.bin
        if missing is not None and self.missing == "left":
            left |= bins == missing
        return np.asarray(left)


@dataclass(frozen=True)
class Growth:
    """How trees grow.

    Attributes:
        depth: Levels of splits.
        learning_rate: Shrinkage.
        penalty: Lambda of equations 4 and 5.
        least_node: Least rows of a node: no split makes a smaller one.
    """

    depth: int
    learning_rate: float
    penalty: float
    least_node: int


@dataclass(eq=False)
class Tree:
    """A tree as it grows, with numbers of nodes in the order in which they came.

    Attributes:
        leaves: What is known of each node.
        splits: The split of each node that has one, with its children's numbers.
        open: Nodes that the next level may split.
    """

    leaves: list[Leaf]
    splits: dict[int, tuple[Split, int, int]] = field(default_factory=dict)
    open: list[int] = field(default_factory=list)

    @classmethod
    def planted(cls, root: Leaf) -> "Tree":
        """A tree that is its root, which the first level may split."""
        return cls([root], {}, [0])

    def grow(self, splits: Sequence[Split | None], growth: Growth, last: bool) -> None:
        """Add the splits of one level.

        Args:
            splits: One for each open node; None where it stays a leaf.
            growth: How trees grow.
            last: No further level comes.
        """
        new: list[int] = []
        for node, split in zip(self.open, splits, strict=True):
            if split is None:
                continue
            left, right = len(self.leaves), len(self.leaves) + 1
            self.leaves += [split.left, split.right]
            self.splits[node] = (split, left, right)
            most = 2 * growth.least_node
            new += [n for n in (left, right) if self.leaves[n].rows >= most]
        self.open = [] if last else new


class Rows:
    """Binned rows of one party.

    Args:
        bins: Bin of each row by feature, shape (features, n), integers from 0.
        widths: How many bins each feature has.
        keeps: Whether a feature's last bin holds rows whose value is missing; empty where none
            does.
    """

    def __init__(self, bins: np.ndarray, widths: Sequence[int], keeps: Sequence[bool] = ()) -> None:
        self.widths = tuple(widths)
        self.keeps = tuple(keeps) or (False,) * len(self.widths)
        self.bins = bins
        self.count = bins.shape[1]
        begins = np.cumsum([0, *self.widths[:-1]])
        #: Each row's cell of each feature, among the bins of all features.
        self.cells = np.ascontiguousarray((bins + begins[:, None]).T, dtype=np.int32)


@dataclass(frozen=True, eq=False)
class Derivatives:
    """Gradients and hessians as integers, ready to be summed.

    Attributes:
        table: By row: gradient, hessian and 1; int64, shape (n, 3).
    """

    table: np.ndarray

    @classmethod
    def of(cls, gradient: np.ndarray, hessian: np.ndarray) -> "Derivatives":
        """Of each row's own.

        Args:
            gradient: int64, shape (n,).
            hessian: int64, shape (n,).
        """
        return cls(np.stack([gradient, hessian, np.ones_like(gradient)], axis=1))


def histograms(
    rows: Rows, derivatives: Derivatives, nodes: np.ndarray, open_nodes: Sequence[int]
) -> np.ndarray:
    """One level's histograms of all open nodes and features.

    Args:
        rows: Binned rows.
        derivatives: Of the same rows.
        nodes: Each row's node, shape (n,).
        open_nodes: The nodes that may be split.

    Returns:
        int64, flat: by node, feature, bin, then gradient, hessian, count.
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
        # A row is a column of ones at its cells: the product adds up, in integers, by cell.
        ends = np.arange(0, cells.size + 1, features, dtype=np.int32)
        at = csc_array(
            (np.ones(cells.size, dtype=np.int64), cells.ravel(), ends),
            shape=(len(sums), len(cells)),
        )
        sums += at @ derivatives.table[block]
    return sums.ravel()


def size_of(widths: Sequence[int], open_nodes: Sequence[int]) -> int:
    """How many integers a level's histograms are."""
    return len(open_nodes) * sum(widths) * SUMS


def decide(
    sums: np.ndarray, widths: Sequence[int], keeps: Sequence[bool], growth: Growth
) -> tuple[list[Leaf], list[Split | None]]:
    """The best split of each open node, by the sums of all parties.

    The gain is G_L^2/(H_L+lambda) + G_R^2/(H_R+lambda) - G^2/(H+lambda): equation 5 with the
    parent's term subtracted (docs/reference/errata.md). Of equal gains the first feature's lowest
    bin wins, and missing values go left.

    Args:
        sums: As `histograms` gives them, added up.
        widths: How many bins each feature has.
        keeps: Whether a feature's last bin holds rows whose value is missing.
        growth: How trees grow.

    Returns:
        What is known of each open node, and its split; None where no split gains anything or
        leaves enough rows on both sides.
    """
    table = sums.reshape(-1, sum(widths), SUMS)
    whole = table[:, : widths[0]].sum(axis=1)
    left = left_sides(table, widths, keeps)
    right = whole[:, None] - left
    gains = _quality(left, growth) + _quality(right, growth) - _quality(whole[:, None], growth)
    least = np.minimum(left[..., 2], right[..., 2])
    gains[(least < max(growth.least_node, 1)) | ~(gains > 0)] = -np.inf
    nodes: list[Leaf] = [leaf_of(total, growth) for total in whole]
    return nodes, best_splits(gains, left, right, widths, lambda sums: leaf_of(sums, growth))


def left_sides(table: np.ndarray, widths: Sequence[int], keeps: Sequence[bool]) -> np.ndarray:
    """Sums of the rows that go left at each bin, as missing values go left, and right.

    Args:
        table: Sums by node and bin, shape (nodes, bins of all columns, sums).
        widths: Bins of each column.
        keeps: Whether a column's last bin holds rows whose value is missing.

    Returns:
        Shape (2, nodes, bins, sums); (1, nodes, bins, sums) where no column may miss values. At
        a last bin of missing values all rows go left: that is no split.
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
    """Each node's split of greatest gain; None where all are minus infinity.

    Args:
        gains: As missing values go left, and right; shape (1 or 2, nodes, bins of all columns).
        left: Sums of the rows that go left there, shape (1 or 2, nodes, bins, sums).
        right: Of those that go right.
        widths: Bins of each column.
        leaf: What a node with such sums is.
    """
    features = np.repeat(np.arange(len(widths)), widths)
    begins = np.cumsum([0, *widths[:-1]])
    splits: list[Split | None] = []
    for node, best in enumerate(gains.max(axis=0).argmax(axis=1)):
        way = int(gains[:, node, best].argmax())
        at = (way, node, best)
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
                missing="right" if way else "left",
            )
        )
    return splits


def leaf_of(sums: np.ndarray, growth: Growth) -> Leaf:
    """A node's weight, -G / (H + lambda) (equation 4), shrunk.

    Args:
        sums: Of gradients, hessians and rows, int64, shape (3,).
        growth: How trees grow.
    """
    gradient, hessian = float(sums[0]) / ONE, float(sums[1]) / ONE
    weight = hessian + growth.penalty
    value = -growth.learning_rate * gradient / weight if weight > 0 else 0.0
    return Leaf(value=value, hessian=hessian, rows=int(sums[2]))


def apply(rows: Rows, nodes: np.ndarray, tree: Tree, before: Sequence[int]) -> np.ndarray:
    """Move rows to the children of the nodes that were split last.

    Args:
        rows: Binned rows.
        nodes: Each row's node before, shape (n,).
        tree: After `Tree.grow`.
        before: The nodes that were open before it.

    Returns:
        Each row's node, shape (n,).
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


def _quality(sums: np.ndarray, growth: Growth) -> np.ndarray:
    gradient, hessian = (sums[..., i].astype(np.float64) / ONE for i in (0, 1))
    weight = hessian + growth.penalty
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(weight > 0, gradient * gradient / weight, 0.0)
