"""Split replacement: thresholds on dense ranks become thresholds on domain values."""

from collections.abc import Mapping, Sequence

import numpy as np

from opboost_ops.boosting.trainer import model_of
from opboost_ops.errors import ContractError


def used_splits(text: str, ranked: Sequence[str]) -> dict[str, list[int]]:
    """The splits that trees use on others' features.

    Args:
        text: A partial model.
        ranked: Features that hold dense ranks.

    Returns:
        By feature, each rank r such that a tree splits between the dense ranks r and r + 1.
    """
    model = model_of(text)
    splits = model.numeric_splits()
    return {
        name: sorted({model.rank_below(threshold) for threshold in splits[name]})
        for name in ranked
        if name in splits
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
) -> str:
    """Replace every rank threshold by its split value.

    Args:
        text: A partial model.
        values: Split value by rank, by feature.
        domain_info: Declared domain of every ranked feature, for the file's ranges.

    Returns:
        A model on domain values: for rows of the training set its predictions are, to the bit,
        those of the partial model on their ranks.

    Raises:
        ContractError: A split has no value.
    """
    model = model_of(text)
    splits = model.numeric_splits()
    for name, bounds in domain_info.items():
        given = values.get(name, {})
        new: dict[float, float] = {}
        for threshold in splits.get(name, []):
            rank = model.rank_below(threshold)
            if rank not in given:
                raise ContractError(f"A split on {name} has no value.", "Ask its holder again.")
            new[threshold] = given[rank]
        model = model.replace_thresholds(name, new, bounds)
    return model.text()
