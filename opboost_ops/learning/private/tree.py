"""Differentially private trees, complete to their depth, and their candidate splits."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from opboost_ops.errors import ContractError
from opboost_ops.learning.private import noise, sensitivity
from opboost_ops.learning.private.sensitivity import GRADIENT_UNITS, LEAF_UNITS

#: Below this number of rows, a squared sum of gradients fits in 64 bits.
_ROWS = 2**31 // GRADIENT_UNITS


@dataclass(frozen=True, eq=False)
class Candidates:
    """All candidate splits of trees. A row goes left if low <= code <= high.

    Attributes:
        names: Names of the features.
        thresholds: Ascending thresholds of each ordered feature; empty for a nominal one.
        categories: Number of categories of each nominal feature; 0 for all others.
        feature: Feature of each candidate, int64, shape (c,).
        low: Least code that goes left, by candidate.
        high: Greatest code that goes left, by candidate.
        starts: First code of each feature when codes are numbered across all features.
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
        """Return all candidates of some features.

        Args:
            names: Features, in the frame's order.
            thresholds: Declared thresholds by feature; a value of at most the threshold goes left.
            categories: Number of declared categories by nominal feature; each is a candidate.

        Raises:
            ContractError: A feature has neither, or its thresholds are not strictly ascending.
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
            # Codes are the number of thresholds below a value; or the category, and one code for
            # all unknown categories.
            sizes.append(len(own) + 1 if len(own) else count + 1)
        feature, low, high = np.array(splits, dtype=np.int64).T
        starts = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
        return cls(tuple(names), tuple(edges), tuple(counts), feature, low, high, starts)

    def codes(self, matrix: np.ndarray) -> np.ndarray:
        """Return the codes of rows.

        Args:
            matrix: Values, and category codes from 0, NaN for unknown; shape (n, features).

        Returns:
            uint16, shape (n, features), in column-major order.

        Raises:
            ContractError: A value of an ordered feature is missing.
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


@dataclass(frozen=True)
class Tree:
    """A complete tree in heap order: the children of node i are 2i + 1 and 2i + 2.

    Attributes:
        splits: Candidate of each of the 2^depth - 1 inner nodes.
        leaves: Noisy values of the 2^depth leaves from the left, in leaf units.
    """

    splits: tuple[int, ...]
    leaves: tuple[int, ...]

    @property
    def depth(self) -> int:
        """The depth of the leaves."""
        return len(self.leaves).bit_length() - 1

    def document(self) -> dict[str, list[int]]:
        """Return the tree as JSON values."""
        return {"splits": list(self.splits), "leaves": list(self.leaves)}

    @classmethod
    def of(cls, document: Mapping[str, list[int]]) -> "Tree":
        """Return the tree of a `document`."""
        return cls(tuple(document["splits"]), tuple(document["leaves"]))

    def values(
        self, codes: np.ndarray, candidates: Candidates, rows: np.ndarray | None = None
    ) -> np.ndarray:
        """Return the leaf values of rows.

        Args:
            codes: Shape (n, features), in column-major order.
            candidates: The candidate splits.
            rows: Positions of the rows; all by default.

        Returns:
            float64, shape (n,) or (len(rows),).
        """
        wanted = np.arange(len(codes)) if rows is None else rows
        node = np.zeros(len(wanted), dtype=np.int64)
        for _ in range(self.depth):
            node = child_nodes(node, self.splits, codes, wanted, candidates)
        leaf = node - (len(self.leaves) - 1)
        return np.asarray((np.array(self.leaves) / LEAF_UNITS)[leaf])


def child_nodes(
    node: np.ndarray,
    splits: Sequence[int],
    codes: np.ndarray,
    rows: np.ndarray,
    candidates: Candidates,
) -> np.ndarray:
    """Return the child node of each row.

    Args:
        node: Node of each row, in heap order.
        splits: Candidate of each inner node so far.
        codes: Shape (n, features), in column-major order.
        rows: Positions of the rows in the codes.
        candidates: The candidate splits.
    """
    index = np.array(splits)
    column = candidates.feature[index]
    # Indices into the flattened codes are five times as fast as two indices per cell.
    cells = np.take(column * len(codes), node) + rows
    code = np.take(codes.reshape(-1, order="F"), cells)
    low, high = candidates.low[index], candidates.high[index]
    left = (np.take(low, node) <= code) & (code <= np.take(high, node))
    return np.asarray(2 * node + 2 - left)


def grow(
    codes: np.ndarray,
    gradients: np.ndarray,
    candidates: Candidates,
    spend: Fraction,
    depth: int,
    regularisation: Fraction,
    gain_range: int,
    clip: int,
) -> Tree:
    """Draw a tree with private splits and leaves.

    Args:
        codes: Codes of the rows that take part, shape (n, features).
        gradients: Their gradients, int64, shape (n,), at most `GRADIENT_UNITS` in absolute value.
        candidates: The candidate splits.
        spend: Epsilon of the tree.
        depth: Depth of every leaf, for any data.
        regularisation: lambda.
        gain_range: Range of a gain's changes by one row: `sensitivity.gain_range`.
        clip: Greatest absolute leaf value in leaf units, before and after noise.
    """
    for_leaves, for_depth = sensitivity.split_budget(spend, depth)
    factor = for_depth / gain_range
    codes, rows = np.asfortranarray(codes), np.arange(len(codes))
    node = np.zeros(len(codes), dtype=np.int64)
    splits: list[int] = []
    for level in range(depth):
        place = node - (2**level - 1)
        gain = gains(codes, gradients, place, 2**level, candidates, regularisation)
        splits += noise.choose(gain, factor).tolist()
        node = child_nodes(node, splits, codes, rows, candidates)
    leaves = leaf_values(gradients, node - (2**depth - 1), 2**depth, regularisation, clip)
    change = sensitivity.leaf_change(regularisation, clip)
    noisy = noise.laplace(leaves, change, for_leaves)
    # Values beyond the clip are due to noise; clipping again has no privacy loss.
    return Tree(tuple(splits), tuple(max(-clip, min(clip, value)) for value in noisy))


def gains(
    codes: np.ndarray,
    gradients: np.ndarray,
    place: np.ndarray,
    nodes: int,
    candidates: Candidates,
    regularisation: Fraction,
) -> np.ndarray:
    """Return the gains of all candidates at all nodes of a depth, exactly and rounded down.

    A gain is the sum over both children of (sum of gradients)^2 / (rows + lambda), each rounded
    down. The parent's term is the same for all candidates and omitted.

    Args:
        codes: Shape (n, features).
        gradients: int64, shape (n,).
        place: Node of each row within this depth, 0..nodes - 1.
        nodes: Number of nodes.
        candidates: The candidate splits.
        regularisation: lambda.

    Returns:
        Integers, shape (nodes, candidates).
    """
    width = int(candidates.starts[-1])
    cells = (place * width)[:, None] + codes + candidates.starts[:-1]
    flat = cells.ravel()
    features = len(candidates.names)
    size = nodes * width
    counts = np.bincount(flat, minlength=size).reshape(nodes, width)
    # Sums of integers of 11 bits are exact in floats far beyond any number of rows.
    weights = np.repeat(gradients.astype(np.float64), features)
    sums = np.bincount(flat, weights, minlength=size).astype(np.int64).reshape(nodes, width)
    return _gain(_children(counts, candidates), _children(sums, candidates), regularisation)


def leaf_values(
    gradients: np.ndarray, place: np.ndarray, leaves: int, regularisation: Fraction, clip: int
) -> list[int]:
    """Return clipped leaf values before noise: -(sum of gradients) / (rows + lambda), rounded.

    Args:
        gradients: int64, shape (n,).
        place: Leaf of each row.
        leaves: Number of leaves.
        regularisation: lambda.
        clip: Greatest absolute value, in leaf units.

    Returns:
        Integers in leaf units.
    """
    counts = np.bincount(place, minlength=leaves).tolist()
    sums = np.bincount(place, gradients.astype(np.float64), minlength=leaves).tolist()
    over, under = regularisation.denominator, regularisation.numerator
    units = LEAF_UNITS // GRADIENT_UNITS
    values = []
    for count, total in zip(counts, sums, strict=True):
        divisor = over * count + under
        nearest = (-2 * int(total) * over * units + divisor) // (2 * divisor)
        values.append(max(-clip, min(clip, nearest)))
    return values


def _children(table: np.ndarray, candidates: Candidates) -> tuple[np.ndarray, np.ndarray]:
    before = np.zeros((len(table), table.shape[1] + 1), dtype=np.int64)
    np.cumsum(table, axis=1, out=before[:, 1:])
    start = candidates.starts[candidates.feature]
    left = before[:, start + candidates.high + 1] - before[:, start + candidates.low]
    # The codes of any feature count every row of the node once.
    whole = before[:, candidates.starts[1]][:, None]
    return left, whole - left


def _gain(
    counts: tuple[np.ndarray, np.ndarray],
    sums: tuple[np.ndarray, np.ndarray],
    regularisation: Fraction,
) -> np.ndarray:
    over, under = regularisation.denominator, regularisation.numerator
    rows = int((counts[0] + counts[1]).max(initial=0))
    if rows >= _ROWS or over * (over * rows + under) >= 2**62:
        # Python's integers are slower, but unbounded and exact.
        counts = counts[0].astype(object), counts[1].astype(object)
        sums = sums[0].astype(object), sums[1].astype(object)
    gain: np.ndarray = np.zeros_like(sums[0])
    for count, total in zip(counts, sums, strict=True):
        divisor = over * count + under
        square = total * total
        whole = square // divisor
        rest = square - whole * divisor
        # Compute floor(over total^2 / divisor) without the product, which could overflow.
        gain = gain + over * whole + over * rest // divisor
    return gain
