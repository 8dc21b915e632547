"""Arrow: randomised values -> ranks; the table rank -> value stays home."""

import numpy as np
import pyarrow as pa

from opboost_ops.exchange.encoding import integers, smallest_integers
from opboost_ops.stages.stage import Context, Outcome


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
        if context.federation.training.trainer == "dpboost":
            distinct = column.domain.values()
            inverse = integers(table, name)[:train] - column.domain.lower
        else:
            distinct, inverse = np.unique(integers(table, name)[:train], return_inverse=True)
        ranks[name] = smallest_integers(inverse.reshape(-1) + 1)
        values[name] = distinct.tolist()
    return Outcome(
        tables={"ranks": pa.table(ranks)},
        documents={"rank_values": values},
        summary={"rows": train, "features": len(ranks)},
    )
