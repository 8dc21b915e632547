"""What was made of each file of the party's table -> whole tables in the common order."""

from collections import Counter

import numpy as np
import pyarrow as pa

from opboost_ops.errors import ContractError
from opboost_ops.exchange.encoding import integers, smallest_integers
from opboost_ops.protocol import stages_of
from opboost_ops.stages.preprocess import facts
from opboost_ops.stages.stage import SHARDS, Context, Outcome


def merge_shards(context: Context) -> Outcome:
    """Put the parts together: what comes after finds what one file would have given.

    Raises:
        ContractError: The parts do not make up the aligned rows.
    """
    count = len(context.home.json(SHARDS)["sha256"])
    alignment = context.receive("alignment", context.party)
    rows = alignment.table.num_rows
    places = [integers(context.home.table(f"positions-{i}"), "place") for i in range(count)]
    if not np.array_equal(np.sort(np.concatenate(places)), np.arange(rows)):
        raise ContractError(
            f"The parts of {context.party}'s table do not make up the aligned rows.",
            "Clear list_shards, and what comes after it.",
        )
    names = ["preprocessed"]
    if "desensitize" in stages_of(context.federation, context.purpose, context.party):
        names += ["randomised", "held"]
    clipped: Counter[str] = Counter()
    for shard in range(count):
        clipped.update(context.home.json(f"preprocessed-{shard}")["clipped"])
    return Outcome(
        tables={
            **{name: _whole(context, name, places, rows) for name in names},
            "positions": alignment.table,
        },
        documents={"preprocessed": facts(alignment, dict(clipped))},
        summary={"rows": rows, "shards": count},
    )


def _whole(context: Context, name: str, places: list[np.ndarray], rows: int) -> pa.Table:
    parts = [context.home.table(f"{name}-{shard}") for shard in range(len(places))]
    columns: dict[str, pa.Array] = {}
    for column in parts[0].column_names:
        whole = np.empty(rows, dtype=np.int64)
        for place, part in zip(places, parts, strict=True):
            whole[place] = integers(part, column)
        columns[column] = smallest_integers(whole)
    return pa.table(columns)
