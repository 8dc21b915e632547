"""Which feature holders have a person, where the label holder keeps all its rows."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from opboost_ops.learning import metrics
from opboost_ops.learning.metrics import Task
from opboost_ops.pipeline.stage import Context
from opboost_ops.pipeline.steps.open_rows import members_table

#: The column of scores with ``overlap: left``.
COVERAGE = "coverage"

#: By code: no feature holder has the person, some have, all have.
GROUPS = ("own", "partial", "complete")


def coverage(context: Context, begin: int, count: int) -> np.ndarray:
    """Codes of `GROUPS` of some rows of the common order, int64, shape (count,).

    Args:
        context: The label holder's, of a run with ``overlap: left``.
        begin: The first row.
        count: How many.
    """
    holders = context.federation.feature_holders
    having = np.zeros(count, dtype=np.int64)
    for holder in holders:
        there = context.home.table(members_table(holder)).column("there").slice(begin, count)
        having += there.to_numpy()
    return group_codes(having, len(holders))


def group_codes(having: np.ndarray, holders: int) -> np.ndarray:
    """Codes of `GROUPS`, int64, shape (n,).

    Args:
        having: How many feature holders have each person, shape (n,).
        holders: How many there are.
    """
    return np.where(having == holders, 2, np.minimum(having, 1)).astype(np.int64)


def group_names(codes: np.ndarray) -> pa.Array:
    """Names of `GROUPS`, by code, shape (n,)."""
    return pa.DictionaryArray.from_arrays(codes, pa.array(GROUPS)).cast(pa.string())


def metrics_by_group(
    task: Task, truth: np.ndarray, predictions: Mapping[str, np.ndarray], codes: np.ndarray
) -> dict[str, dict[str, Any]]:
    """Metrics apart for complete, partial and own rows.

    Args:
        task: What was learnt.
        truth: Labels of the held-out rows, shape (n,).
        predictions: For these, by model.
        codes: Of the same rows, see `coverage`.

    Returns:
        By name of those groups that have rows: ``rows``, and ``metrics`` by model; these are empty
        where all rows have one label.
    """
    groups: dict[str, dict[str, Any]] = {}
    for code in reversed(range(len(GROUPS))):
        here = codes == code
        if not here.any():
            continue
        several = len(np.unique(truth[here])) > 1
        groups[GROUPS[code]] = {
            "rows": int(here.sum()),
            "metrics": {
                model: metrics.evaluate(task, truth[here], of[here])
                for model, of in predictions.items()
                if several
            },
        }
    return groups
