"""Predictions of many rows at once, equal to LightGBM's own to the last bit.

LightGBM follows each row through each tree, and mostly waits for branches that were guessed wrong.
Here each split is compared for a block of rows. The outcomes of up to eight splits are the bits of
a number, by which a table gives the value of the leaf.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from opboost_ops.boosting.lightgbm_text import CATEGORICAL, LEFT, MISSING, NAN, TextModel
from opboost_ops.scratch.arrays import slices

#: Rows from which on it is worth to read the model here.
MANY = 4096

#: Rows of a block: what they need stays in a core's cache.
_BLOCK = 32_768

#: Most splits whose outcomes are bits of one number, and most leaves of a tree: of larger trees a
#: row passes few of the splits.
_BITS, _LEAVES = 8, 32

#: The objectives, as a model states them, whose sums of leaves are made predictions here.
_LOG_ODDS, _NUMBER = "binary sigmoid:1", "regression"

_KEYS = ("split_feature", "threshold", "decision_type", "left_child", "right_child", "leaf_value")


@dataclass(frozen=True)
class _Rows:
    columns: np.ndarray
    without_gaps: np.ndarray


@dataclass(frozen=True)
class _Split:
    feature: int
    threshold: float
    kind: int

    def goes_right(self, rows: "_Rows") -> np.ndarray:
        """Of each row; one without a value goes where the model says, or has 0."""
        if not self.kind & MISSING:
            return np.asarray(rows.without_gaps[self.feature] > self.threshold)
        # Comparisons with NaN are false.
        column = rows.columns[self.feature]
        right = column > self.threshold if self.kind & LEFT else ~(column <= self.threshold)
        return np.asarray(right)


@dataclass(frozen=True)
class _Table:
    """A tree, or a part of one, of few splits: values by the outcomes of all of them."""

    splits: tuple[_Split, ...]
    values: np.ndarray

    def of(self, rows: _Rows) -> np.ndarray:
        code = np.zeros(rows.columns.shape[1], np.uint8)
        for split in self.splits:
            code += code
            code |= split.goes_right(rows).view(np.uint8)
        return self.values.take(code)


@dataclass(frozen=True)
class _Branch:
    """A part of a tree that is too large for a table."""

    split: _Split
    left: "_Table | _Branch"
    right: "_Table | _Branch"

    def of(self, rows: _Rows) -> np.ndarray:
        return np.where(self.split.goes_right(rows), self.right.of(rows), self.left.of(rows))


@lru_cache(maxsize=2)
def many_rows(text: str) -> "ManyRows | None":
    """How to predict many rows by a model; None for one that only LightGBM can read.

    Args:
        text: LightGBM's text.
    """
    lines = text.partition("\nend of trees")[0].split("\n")
    facts = dict(line.partition("=")[::2] for line in lines[: lines.index("")])
    objective = facts.get("objective", "")
    plain = facts.get("num_tree_per_iteration") == "1" and "average_output" not in facts
    if not plain or objective not in (_LOG_ODDS, _NUMBER) or "is_linear=1" in lines:
        return None
    model = TextModel(tuple(lines), ())
    trees = [list(map(list, tree)) for _, tree in model.trees(_KEYS)]
    for *_, kinds, _, _, leaves in trees:
        unread = any(int(k) & CATEGORICAL or int(k) & MISSING not in (0, NAN) for k in kinds)
        if unread or len(leaves) > _LEAVES:
            return None
    return ManyRows(tuple(map(_tree, trees)), objective)


@dataclass(frozen=True)
class ManyRows:
    """A model that was read for many rows.

    Attributes:
        trees: In the model's order, in which their values are added up.
        objective: As the model states it.
    """

    trees: tuple[_Table | _Branch, ...]
    objective: str

    def predict(self, matrix: np.ndarray) -> np.ndarray:
        """What LightGBM predicts.

        Args:
            matrix: float64, shape (n, features).

        Returns:
            Probabilities or numbers, float64, shape (n,).
        """
        found = np.zeros(len(matrix))
        for some in slices(len(matrix), _BLOCK):
            columns = np.ascontiguousarray(matrix[some].T)
            gaps = np.isnan(columns)
            rows = _Rows(columns, np.where(gaps, 0.0, columns) if gaps.any() else columns)
            for tree in self.trees:
                found[some] += tree.of(rows)
        if self.objective == _NUMBER:
            return found
        # Loading it takes a while, which most processes need not spend.
        from scipy.special import expit

        return np.asarray(expit(found))


def _tree(lines: Sequence[Sequence[str]]) -> _Table | _Branch:
    features, thresholds, kinds, left, right, leaves = lines
    numbered = zip(features, thresholds, kinds, strict=True)
    splits = [_Split(int(at), float(limit), int(kind)) for at, limit, kind in numbered]
    sides = [(int(one), int(other)) for one, other in zip(left, right, strict=True)]

    def below(node: int) -> Iterator[int]:
        if node >= 0:
            yield node
            for side in sides[node]:
                yield from below(side)

    def part(node: int) -> _Table | _Branch:
        inner = list(below(node))
        if len(inner) > _BITS:
            return _Branch(splits[node], *map(part, sides[node]))
        codes = np.arange(2 ** len(inner))
        bits = {at: bit for bit, at in enumerate(reversed(inner))}

        def values(at: int) -> np.ndarray:
            if at < 0:
                return np.full(len(codes), float(leaves[~at]))
            right = (codes >> bits[at]) & 1
            return np.where(right, values(sides[at][1]), values(sides[at][0]))

        return _Table(tuple(splits[at] for at in inner), values(node))

    return part(0 if splits else ~0)
