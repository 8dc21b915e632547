"""What was made of each file of the party's table -> whole tables in the common order."""

from collections import Counter

import numpy as np
import pyarrow as pa

from opboost_ops.errors import ContractError
from opboost_ops.exchange.encoding import narrow_integers, smallest_integers
from opboost_ops.stages.preprocess import facts
from opboost_ops.stages.rank import PRESENT
from opboost_ops.stages.stage import SHARDS, Context, Outcome


def merge_shards(context: Context) -> Outcome:
    """Put the parts together: what comes after finds what one file would have given.

    Raises:
        ContractError: The parts do not make up the aligned rows.
    """
    count = len(context.home.json(SHARDS)["sha256"])
    alignment = context.receive("alignment", context.party)
    rows = alignment.table.num_rows
    places = [narrow_integers(context.home.table(f"positions-{i}"), "place") for i in range(count)]
    if not _make_up(places, rows):
        raise ContractError(
            f"The parts of {context.party}'s table do not make up the aligned rows.",
            "Clear list_shards, and what comes after it.",
        )
    names = ["preprocessed"]
    if "desensitize" in context.stages:
        names += ["randomised", "held"]
    documents = {}
    if context.purpose == "train":
        documents[PRESENT] = _present(context, count)
    clipped: Counter[str] = Counter()
    for shard in range(count):
        clipped.update(context.home.json(f"preprocessed-{shard}")["clipped"])
    return Outcome(
        tables={
            **{name: _whole(context, name, places, rows) for name in names},
            "positions": _whole(context, "positions", places, rows, ("position",)),
        },
        documents={**documents, "preprocessed": facts(alignment, dict(clipped))},
        summary={"rows": rows, "shards": count},
    )


def _present(context: Context, count: int) -> dict[str, list[int]]:
    """The values that the training rows of any file have, by column, rising."""
    parts = [context.home.json(f"{PRESENT}-{shard}") for shard in range(count)]
    return {name: sorted(set().union(*(part[name] for part in parts))) for name in parts[0]}


def _make_up(places: list[np.ndarray], rows: int) -> bool:
    """Whether each row has its place in one of the parts."""
    if sum(map(len, places)) != rows or any(place.max(initial=0) >= rows for place in places):
        return False
    found = np.zeros(rows, dtype=bool)
    for place in places:
        found[place] = True
    return bool(found.all())


def _whole(
    context: Context,
    name: str,
    places: list[np.ndarray],
    rows: int,
    only: tuple[str, ...] = (),
) -> pa.Table:
    parts = [context.home.table(f"{name}-{shard}") for shard in range(len(places))]
    columns: dict[str, pa.Array] = {}
    for column in only or parts[0].column_names:
        values = [narrow_integers(part, column) for part in parts]
        # Each part has the smallest type that holds it, so the widest of them holds the whole.
        signed = any(np.issubdtype(value.dtype, np.signedinteger) for value in values)
        whole = np.empty(rows, dtype=np.int64 if signed else np.result_type(*values))
        for place, value in zip(places, values, strict=True):
            whole[place] = value
        columns[column] = smallest_integers(whole)
    return pa.table(columns)
