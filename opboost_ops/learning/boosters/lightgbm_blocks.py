"""LightGBM on a frame that is too large to lie in memory as numbers: what stays is its bins.

LightGBM's own `Sequence` reads blocks, but would sample rows for its bins, so that ranks that no
row of the sample has would share one. Here its bins come from a reference that has every rank.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from opboost_ops.learning.boosters.frame import Frame, Parameters, Tell, unheard
from opboost_ops.learning.boosters.lightgbm_backend import (
    LOCAL,
    after_each,
    highest_of,
    settings_of,
    stated,
)

#: Cells from which on a frame is read in blocks: half a gigabyte of numbers, with LightGBM's copy.
LARGE = 2**25
#: Cells of a block.
_BLOCK = 2**22
#: Rows that own columns' bins are made from: LightGBM's own number.
SAMPLE = 200_000


def train(
    read: Callable[[int, int], Frame],
    label: np.ndarray,
    weight: np.ndarray | None,
    parameters: Parameters,
    tell: Tell = unheard,
) -> str:
    """Train on rows that are read block by block, twice.

    Bins of others' ranks are those of a frame in one piece; those of own numbers come from
    `SAMPLE` rows, evenly spread, and are the same where there are no more.

    Args:
        read: The frame's rows from one position up to another.
        label: Numbers or class indices, shape (n,).
        weight: How much each row counts, shape (n,); None where all count alike.
        parameters: How; the booster is LightGBM, with every row to learn from.
        tell: Told after each boosting round.

    Returns:
        The text model; the same input gives the same text.
    """
    import lightgbm

    rows = len(label)
    first = read(0, 1)
    size = max(1, _BLOCK // len(first.names))
    highest = np.zeros(len(first.names))
    sampled = np.unique(np.linspace(0, rows - 1, min(rows, SAMPLE)).astype(np.int64))
    sample = []
    for begin in range(0, rows, size):
        matrix = read(begin, min(begin + size, rows)).matrix
        highest = np.fmax(highest, highest_of(matrix))
        low, high = np.searchsorted(sampled, (begin, begin + len(matrix)))
        sample.append(matrix[sampled[low:high] - begin])

    class Rows(lightgbm.Sequence):
        batch_size = size

        def __len__(self) -> int:
            return rows

        def __getitem__(self, which: Any) -> np.ndarray:
            return np.ascontiguousarray(read(which.start, which.stop).matrix)

    settings = settings_of(first, highest, rows, parameters)
    columns: dict[str, Any] = {"feature_name": list(first.names), "params": settings}
    nominal = [first.names.index(name) for name in first.categorical]
    bins = with_all_ranks(np.concatenate(sample), first, highest)
    reference = lightgbm.Dataset(bins, np.zeros(len(bins)), categorical_feature=nominal, **columns)
    data = lightgbm.Dataset(Rows(), label, weight=weight, reference=reference, **columns)
    booster = lightgbm.train(
        settings,
        data,
        num_boost_round=parameters.trees,
        callbacks=[after_each(tell, parameters)],
    )
    return stated(booster.model_to_string(), LOCAL)


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
