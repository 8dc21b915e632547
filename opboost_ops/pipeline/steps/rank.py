"""Step: randomised values -> ranks; the table from rank to value stays at home."""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from opboost_ops.config.columns import Column
from opboost_ops.exchange.files import narrow_integers, smallest_integers
from opboost_ops.pipeline.stage import Context, Outcome
from opboost_ops.tables.spill.arrays import Scratch, slices


def rank(context: Context) -> Outcome:
    """Replace each value by its dense rank in the table, from 1; equal values share a rank.

    For DPBoost ranks number all outputs of the mechanism from 1, present or not: a single new value
    would renumber dense ranks, and so change other people's rows.
    """
    table = context.home.table("randomised")
    private = context.federation.training.trainer == "dpboost"
    ranks, values = ranks_of(context.columns(), table, private, context.home.scratch)
    return Outcome(
        tables={"ranks": ranks},
        documents={"rank_values": values},
        summary={"rows": ranks.num_rows, "features": ranks.num_columns},
    )


def ranks_of(
    columns: Sequence[Column],
    table: pa.Table,
    private: bool,
    scratch: Scratch | None = None,
) -> tuple[pa.Table, dict[str, list[int]]]:
    """Return the ranks of a table, and the value of each rank.

    Args:
        columns: The columns to rank.
        table: Randomised values of all rows, by column.
        private: True to number all outputs of the mechanism, for DPBoost.
        scratch: Holds ranks on disk if they are too large for memory; None keeps them in memory.
    """
    ranks: dict[str, pa.Array] = {}
    values: dict[str, list[int]] = {}
    for column in columns:
        name = column.name
        released = narrow_integers(table, name)
        present = (
            column.mechanism.channel(column.domain).outputs if private else present_values(released)
        )
        ranks[name] = smallest_integers(dense_ranks(released, present, scratch), scratch)
        values[name] = present.tolist()
    return pa.table(ranks), values


def present_values(released: np.ndarray) -> np.ndarray:
    """Return a column's distinct values, ascending, int64, using one flag per possible value.

    Args:
        released: Integers, shape (n,).
    """
    if not len(released):
        return np.empty(0, dtype=np.int64)
    parts = (released[rows] for rows in slices(len(released)))
    ends = [(int(part.min()), int(part.max())) for part in parts]
    least = min(low for low, _ in ends)
    present = np.zeros(max(high for _, high in ends) - least + 1, dtype=bool)
    for rows in slices(len(released)):
        present[released[rows].astype(np.int64) - least] = True
    return np.flatnonzero(present) + least


def dense_ranks(
    released: np.ndarray, present: np.ndarray, scratch: Scratch | None = None
) -> np.ndarray:
    """Return the 1-based place of each value among the distinct ones, shape (n,).

    Args:
        released: Integers, shape (n,).
        present: Their distinct values, ascending.
        scratch: See `ranks_of`.
    """
    least = int(present[0])
    rank_of = np.zeros(int(present[-1]) - least + 1, np.min_scalar_type(len(present)))
    rank_of[present - least] = np.arange(1, len(present) + 1)
    size = len(released)
    ranks = scratch.zeros(size, rank_of.dtype) if scratch else np.empty(size, rank_of.dtype)
    for rows in slices(size):
        ranks[rows] = rank_of[released[rows].astype(np.int64) - least]
    return ranks
