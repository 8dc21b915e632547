"""Arrow: randomised values -> ranks; the table rank -> value stays home."""

import numpy as np
import pyarrow as pa

from opboost_ops.exchange.encoding import narrow_integers, smallest_integers
from opboost_ops.stages.stage import Context, Outcome

#: Where a sharded table's present values are kept, by column; each file's with its number.
PRESENT = "present"

#: Rows at a time.
_BLOCK = 131_072


def rank(context: Context) -> Outcome:
    """Replace each training row's value by its dense rank, 1 for the least; ties share one.

    For DPBoost ranks are the domain's own codes, 1 for its lower bound, whether a value is present
    or not: one new value would renumber dense ranks, and so move others' rows.
    """
    table = context.home.table("randomised")
    train = context.home.json("preprocessed")["train"]
    ranks: dict[str, pa.Array] = {}
    values: dict[str, list[int]] = {}
    for column in context.columns():
        name = column.name
        released = narrow_integers(table, name)[:train]
        if context.federation.training.trainer == "dpboost":
            present = column.domain.values()
        elif context.federation.parties[context.party].shards:
            # Each file's own were looked up by the worker that had it.
            present = np.asarray(context.home.json(PRESENT)[name], dtype=np.int64)
        else:
            present = present_values(released)
        ranks[name] = smallest_integers(dense_ranks(released, present))
        values[name] = present.tolist()
    return Outcome(
        tables={"ranks": pa.table(ranks)},
        documents={"rank_values": values},
        summary={"rows": train, "features": len(ranks)},
    )


def present_values(released: np.ndarray) -> np.ndarray:
    """The different values of a column, rising, int64, by one bit for each possible one.

    Args:
        released: Integers, shape (n,).
    """
    if not len(released):
        return np.empty(0, dtype=np.int64)
    least = int(released.min())
    present = np.zeros(int(released.max()) - least + 1, dtype=bool)
    for begin in range(0, len(released), _BLOCK):
        present[released[begin : begin + _BLOCK].astype(np.int64) - least] = True
    return np.flatnonzero(present) + least


def dense_ranks(released: np.ndarray, present: np.ndarray) -> np.ndarray:
    """The place of each value among the present ones, from 1, shape (n,).

    Args:
        released: Integers, shape (n,).
        present: All of their values, rising.
    """
    least = int(present[0])
    rank_of = np.zeros(int(present[-1]) - least + 1, np.min_scalar_type(len(present)))
    rank_of[present - least] = np.arange(1, len(present) + 1)
    ranks = np.empty(len(released), dtype=rank_of.dtype)
    for begin in range(0, len(released), _BLOCK):
        rows = slice(begin, begin + _BLOCK)
        ranks[rows] = rank_of[released[rows].astype(np.int64) - least]
    return ranks
