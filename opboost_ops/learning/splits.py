"""Replacement of thresholds on dense ranks by thresholds on domain values.

As in FederBoost (Tian et al.), the holder of a feature evaluates its comparisons.
"""

from collections.abc import Mapping, Sequence
from types import MappingProxyType

import numpy as np

from opboost_ops.errors import ContractError
from opboost_ops.learning.boosters.trainer import model_of

_NO_MISSING: Mapping[str, int] = MappingProxyType({})


def used_splits(
    text: str, ranked: Sequence[str], highest: Mapping[str, int] = _NO_MISSING
) -> dict[str, list[int]]:
    """Return the splits of a model on other parties' features.

    Args:
        text: A model on ranks.
        ranked: Features that contain dense ranks.
        highest: The highest rank in training, for features that may be missing: a split above it,
            or below all ranks, separates missing values from all others.

    Returns:
        By feature, each rank r such that a tree splits between the dense ranks r and r + 1.
    """
    model = model_of(text)
    splits = model.numeric_splits()
    used: dict[str, list[int]] = {}
    for name in ranked:
        ranks = {model.rank_below(threshold) for threshold in splits.get(name, [])}
        if name in highest:
            ranks = {rank for rank in ranks if 1 <= rank < highest[name]}
        if ranks:
            used[name] = sorted(ranks)
    return used


def domain_thresholds(text: str, bounds: Mapping[str, tuple[int, int]]) -> dict[str, list[float]]:
    """Return the thresholds that separate values of a domain, as from `integer_comparisons`.

    Args:
        text: A model on domain values.
        bounds: Bounds of the domain by feature; other features are omitted.
    """
    return {
        name: inside
        for name, thresholds in model_of(text).integer_comparisons().items()
        if name in bounds
        and (inside := [t for t in thresholds if bounds[name][0] <= t < bounds[name][1]])
    }


def split_values(ranks: Sequence[int], table: np.ndarray) -> list[float]:
    """Return the split values: halfway between the values of the ranks r and r + 1.

    Args:
        ranks: Splits, as from `used_splits`.
        table: The values of all dense ranks, ascending; ``table[r - 1]`` belongs to rank r. Either
            one value per rank, shape (k,), or the ends of a bucket per rank, shape (k, 2): split
            values then lie between the ends of adjacent buckets, since a value between their
            middles may lie inside the first bucket.

    Raises:
        ContractError: A rank lies outside the table.
    """
    if any(not 1 <= rank < len(table) for rank in ranks):
        raise ContractError("A split lies outside the ranks that were released.")
    ends = table if table.ndim == 2 else np.stack([table, table], axis=1)
    return [(float(ends[rank - 1][1]) + float(ends[rank][0])) / 2 for rank in ranks]


def materialise(
    text: str,
    values: Mapping[str, Mapping[int, float]],
    domain_info: Mapping[str, tuple[int, int]],
    highest: Mapping[str, int] = _NO_MISSING,
) -> str:
    """Replace every threshold on ranks by its split value.

    Args:
        text: A model on ranks.
        values: Split values by feature and rank.
        domain_info: Declared domain of each ranked feature, for the ranges in the file.
        highest: As for `used_splits`.

    Returns:
        A model on domain values. On the training rows its predictions are equal, to the bit, to
        those of the model on ranks.

    Raises:
        ContractError: A split has no value.
    """
    model = model_of(text)
    splits = model.numeric_splits()
    new: dict[str, dict[float, float]] = {name: {} for name in domain_info}
    for name, bounds in domain_info.items():
        by_rank = values.get(name, {})
        for threshold in splits.get(name, []):
            rank = model.rank_below(threshold)
            if name in highest and not 1 <= rank < highest[name]:
                # All values lie on one side; only the direction of missing values remains.
                new[name][threshold] = bounds[0] - 0.5 if rank < 1 else bounds[1] + 0.5
                continue
            if rank not in by_rank:
                raise ContractError(
                    f"A split on {name} has no value in its holder's answer.",
                    "Trigger a new run.",
                )
            new[name][threshold] = by_rank[rank]
    return model.replace_thresholds(new, domain_info).text()


def cells(values: np.ndarray, thresholds: np.ndarray) -> np.ndarray:
    """Return the number of thresholds below each value, which determines all comparisons.

    Args:
        values: Values of one feature, shape (n,).
        thresholds: Strictly increasing, shape (k,).

    Returns:
        Integers 0..k, shape (n,).
    """
    return np.searchsorted(thresholds, values, side="left")


def representatives(places: np.ndarray, thresholds: np.ndarray) -> np.ndarray:
    """Return an integer per cell that compares with every threshold as the cell's values do.

    It is the greatest integer in the cell, which a row can have, so it works for ``<=`` and ``<``.

    Args:
        places: Integers 0..k, shape (n,), as from `cells` for integer values.
        thresholds: Strictly increasing, shape (k,), k > 0.

    Returns:
        float64, shape (n,). Trees that compare only with these thresholds route it as the value
        itself.
    """
    values = np.floor(np.append(thresholds, thresholds[-1] + 1.0))
    return np.asarray(values[places])
