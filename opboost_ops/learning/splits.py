"""Split replacement: thresholds on dense ranks become thresholds on domain values.

FederBoost (Tian et al.) predicts so: who holds a feature answers its comparisons.
"""

from collections.abc import Mapping, Sequence
from types import MappingProxyType

import numpy as np

from opboost_ops.errors import ContractError
from opboost_ops.learning.boosters.trainer import model_of

_NONE: Mapping[str, int] = MappingProxyType({})


def used_splits(
    text: str, ranked: Sequence[str], highest: Mapping[str, int] = _NONE
) -> dict[str, list[int]]:
    """The splits that trees use on others' features.

    Args:
        text: A partial model.
        ranked: Features that hold dense ranks.
        highest: The highest rank that was trained on, of features that may be missing: a split
            above it, or below all ranks, parts missing values from all others.

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


def comparisons(text: str, bounds: Mapping[str, tuple[int, int]]) -> dict[str, list[float]]:
    """Thresholds of splits that part values of a domain, as `integer_comparisons` gives them.

    Args:
        text: A model on domain values.
        bounds: Of each domain, by feature; others are left out.
    """
    return {
        name: inside
        for name, thresholds in model_of(text).integer_comparisons().items()
        if name in bounds
        and (inside := [t for t in thresholds if bounds[name][0] <= t < bounds[name][1]])
    }


def split_values(ranks: Sequence[int], table: np.ndarray) -> list[float]:
    """The values of splits: halfway between what the ranks r and r + 1 stand for.

    Args:
        ranks: Splits, as `used_splits` names them.
        table: What each dense rank stands for, rising; ``table[r - 1]`` belongs to rank r. A value
            each, shape (k,), or the ends of a bucket each, shape (k, 2): a value between two
            buckets' middles may well lie in the first, so halves are taken between their ends.

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
    highest: Mapping[str, int] = _NONE,
) -> str:
    """Replace every rank threshold by its split value.

    Args:
        text: A partial model.
        values: Split value by rank, by feature.
        domain_info: Declared domain of every ranked feature, for the file's ranges.
        highest: As for `used_splits`.

    Returns:
        A model on domain values: for rows of the training set its predictions are, to the bit,
        those of the partial model on their ranks.

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
                # On one side of all values: only where a missing one goes is left.
                new[name][threshold] = bounds[0] - 0.5 if rank < 1 else bounds[1] + 0.5
                continue
            if rank not in by_rank:
                raise ContractError(f"A split on {name} has no value.", "Ask its holder again.")
            new[name][threshold] = by_rank[rank]
    return model.replace_thresholds(new, domain_info).text()


def cells(values: np.ndarray, thresholds: np.ndarray) -> np.ndarray:
    """The outcome of every comparison ``value <= threshold``, as the number that fail.

    Args:
        values: Of one feature, shape (n,).
        thresholds: Strictly increasing, shape (k,).

    Returns:
        Integers 0..k, shape (n,): thresholds below the value.
    """
    return np.searchsorted(thresholds, values, side="left")


def stand_ins(places: np.ndarray, thresholds: np.ndarray) -> np.ndarray:
    """An integer for each cell that compares with every threshold as the cell's values do.

    It is the greatest integer of the cell, a value that a row might have: so it does not matter
    whether trees ask ``<=`` or ``<``.

    Args:
        places: Integers 0..k, shape (n,), as `cells` gives them for integer values.
        thresholds: Strictly increasing, shape (k,), k > 0.

    Returns:
        float64, shape (n,): trees whose comparisons are among the thresholds send it where the
        value itself would go.
    """
    values = np.floor(np.append(thresholds, thresholds[-1] + 1.0))
    return np.asarray(values[places])
