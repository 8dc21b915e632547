"""LightGBM on a frame that is too large to lie in memory as numbers: what stays is its bins.

LightGBM's own `Sequence` reads blocks, but would sample rows for its bins, so that ranks that no
row of the sample has would share one. Here its bins come from a reference that has every rank.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from opboost_ops.learning.boosters.frame import Frame, Parameters, Tell, unheard
from opboost_ops.learning.boosters.lightgbm_backend import (
    LOCAL,
    after_each,
    highest_of,
    settings_of,
    stated,
)

if TYPE_CHECKING:
    import lightgbm

#: Cells from which on a frame is read in blocks: half a gigabyte of numbers, with LightGBM's copy.
LARGE = 2**25
#: Cells of a block.
_BLOCK = 2**22
#: Rows that own columns' bins are made from: LightGBM's own number.
SAMPLE = 200_000


@dataclass(frozen=True)
class Blocks:
    """Training rows that are read block by block.

    Attributes:
        read: Gives the frame's rows from one position up to another.
        label: Numbers or class indices, shape (n,).
        weight: How much each row counts, shape (n,); None where all count alike.
    """

    read: Callable[[int, int], Frame]
    label: np.ndarray
    weight: np.ndarray | None = None


class Reference:
    """Rows from which all blocks take their bins: `SAMPLE` of them, evenly spread, and every rank.

    Args:
        first: A row of the frame.
        rows: How many rows there are in all.
    """

    def __init__(self, first: Frame, rows: int) -> None:
        self._frame = first
        self._rows = np.unique(np.linspace(0, rows - 1, min(rows, SAMPLE)).astype(np.int64))
        self._sample: list[np.ndarray] = []
        #: The greatest number of each column, shape (features,).
        self.highest = np.zeros(len(first.names))

    def add(self, begin: int, matrix: np.ndarray) -> None:
        """Look at a block.

        Args:
            begin: The position of its first row.
            matrix: Shape (k, features).
        """
        self.highest = np.fmax(self.highest, highest_of(matrix))
        low, high = np.searchsorted(self._rows, (begin, begin + len(matrix)))
        self._sample.append(matrix[self._rows[low:high] - begin])

    def matrix(self) -> np.ndarray:
        """The rows, once all blocks were added."""
        return with_all_ranks(np.concatenate(self._sample), self._frame, self.highest)


def train(blocks: Blocks, parameters: Parameters, tell: Tell = unheard) -> str:
    """Train on rows that are read block by block, twice.

    Bins of others' ranks are those of a frame in one piece; those of own numbers come from
    `SAMPLE` rows, and are the same where there are no more.

    Args:
        blocks: The rows.
        parameters: How; the booster is LightGBM, with every row to learn from.
        tell: Told after each boosting round.

    Returns:
        The text model; the same input gives the same text.
    """
    import lightgbm

    rows = len(blocks.label)
    first = blocks.read(0, 1)
    size = max(1, _BLOCK // len(first.names))
    reference = Reference(first, rows)
    for begin in range(0, rows, size):
        reference.add(begin, blocks.read(begin, min(begin + size, rows)).matrix)
    settings = settings_of(first, reference.highest, rows, parameters)
    whole = (rows, lambda begin, end: blocks.read(begin, end).matrix)
    data = dataset(first, reference.matrix(), [whole], blocks.label, blocks.weight, settings)
    booster = lightgbm.train(
        settings,
        data,
        num_boost_round=parameters.trees,
        callbacks=[after_each(tell, parameters)],
    )
    return stated(booster.model_to_string(), LOCAL)


def dataset(
    frame: Frame,
    reference: np.ndarray,
    parts: Sequence[tuple[int, Callable[[int, int], np.ndarray]]],
    label: np.ndarray,
    weight: np.ndarray | None,
    settings: Mapping[str, Any],
) -> "lightgbm.Dataset":
    """LightGBM's bins of rows in parts, of which no more than a block is there as numbers.

    Args:
        frame: Which columns there are.
        reference: Rows from which the bins are made.
        parts: Of each, how many rows it has, and how to read some of them.
        label: Of all rows, shape (n,).
        weight: Of all rows, shape (n,), or None.
        settings: LightGBM's own.
    """
    import lightgbm

    class Rows(lightgbm.Sequence):
        batch_size = max(1, _BLOCK // len(frame.names))

        def __init__(self, rows: int, read: Callable[[int, int], np.ndarray]) -> None:
            self._rows, self._read = rows, read

        def __len__(self) -> int:
            return self._rows

        def __getitem__(self, which: Any) -> np.ndarray:
            return np.ascontiguousarray(self._read(which.start, which.stop))

    columns: dict[str, Any] = {"feature_name": list(frame.names), "params": dict(settings)}
    nominal = [frame.names.index(name) for name in frame.categorical]
    bins = lightgbm.Dataset(
        reference, np.zeros(len(reference)), categorical_feature=nominal, **columns
    )
    sequences = [Rows(rows, read) for rows, read in parts]
    return lightgbm.Dataset(sequences, label, weight=weight, reference=bins, **columns)


def narrow(matrix: np.ndarray) -> list[np.ndarray]:
    """Columns of a matrix, each in the smallest type that has all its numbers exactly."""
    return [_narrow_column(column) for column in matrix.T]


def _narrow_column(column: np.ndarray) -> np.ndarray:
    for kind in (np.uint8, np.uint16, np.float32):
        # Numbers that a type does not have are others in it.
        with np.errstate(invalid="ignore", over="ignore"):
            small = column.astype(kind)
        if np.array_equal(small, column, equal_nan=True):
            return small
    return column


def with_all_ranks(sample: np.ndarray, frame: Frame, highest: np.ndarray) -> np.ndarray:
    """Rows, and copies of some of them with the ranks that none of them has.

    Args:
        sample: Some rows, shape (n, features).
        frame: Which columns are ranks.
        highest: The greatest number of each column, shape (features,).
    """
    missing = {
        at: np.setdiff1d(np.arange(1, int(highest[at]) + 1), sample[:, at])
        for at, name in enumerate(frame.names)
        if name in frame.ranked
    }
    count = max(map(len, missing.values()), default=0)
    if not count:
        return sample
    more = sample[np.arange(count) % len(sample)]
    for at, ranks in missing.items():
        more[: len(ranks), at] = ranks
    return np.concatenate([sample, more])
