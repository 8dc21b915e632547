"""What was made of each file of the party's table -> whole tables, as one file would give them."""

from collections import Counter
from typing import Any

import numpy as np
import pyarrow as pa

from opboost_ops.errors import ContractError
from opboost_ops.exchange.encoding import narrow_integers, smallest_integers
from opboost_ops.scratch.arrays import let_go, slices
from opboost_ops.stages.desensitize import randomised
from opboost_ops.stages.encode_rows import joined_rows
from opboost_ops.stages.held import HELD, held_values, person_keys
from opboost_ops.stages.rank import PRESENT, present_values
from opboost_ops.stages.stage import SHARDS, Context, Outcome


def merge_shards(context: Context) -> Outcome:
    """Put the parts together: what comes after finds what one file would have given.

    In horizontal learning they are put one after the other. Elsewhere all files together are one
    draw. It is taken here, of the whole table; the few cells that are
    at their cap are randomised once more, as the values that may go.

    Raises:
        BudgetError: A budget would be exceeded, or a cell state is lost; nothing was charged.
        ContractError: The parts do not make up the table; in horizontal learning, no row is
            left to train on or to hold out.
    """
    if context.federation.learning == "horizontal":
        return joined_rows(context)
    offsets = context.home.json(SHARDS)["offsets"]
    tables = {"preprocessed": _whole(context, "preprocessed", offsets)}
    count, clipped = len(offsets) - 1, Counter[str]()
    for shard in range(count):
        clipped.update(context.home.json(f"preprocessed-{shard}")["clipped"])
    documents: dict[str, Any] = {"preprocessed": {"clipped": dict(clipped)}}
    if "desensitize" in context.stages:
        drawn = _whole(context, "randomised", offsets)
        tables["randomised"], more = _drawn(context, count, tables, drawn)
        documents |= more
    rows = tables["preprocessed"].num_rows
    return Outcome(tables=tables, documents=documents, summary={"rows": rows, "shards": count})


def _drawn(
    context: Context,
    count: int,
    tables: dict[str, pa.Table],
    drawn: pa.Table,
) -> tuple[pa.Table, dict[str, Any]]:
    """What may go of the randomised rows, and what is kept beside it."""
    keys, scratch = person_keys(context), context.home.scratch
    held = held_values(context, tables["preprocessed"], keys)
    new: dict[str, np.ndarray] = {}
    for source, values in held.values.items():
        asked = narrow_integers(tables["preprocessed"], source)
        changed = scratch.zeros(len(values), bool)
        for some in slices(len(values)):
            changed[some] = values[some] != asked[some]
            let_go()
        other = np.flatnonzero(changed)
        if not len(other):
            continue
        once_more = randomised(context, {source: values[other]}, keys[other])
        for name, cells in once_more.items():
            new[name] = narrow_integers(drawn, name).astype(
                np.promote_types(drawn.schema.field(name).type.to_pandas_dtype(), cells.dtype)
            )
            new[name][other] = cells
    documents: dict[str, Any] = {HELD: held.document()}
    if "rank" in context.stages:
        documents[PRESENT] = _present(context, count) | {
            name: present_values(values).tolist() for name, values in new.items()
        }
    columns = {name: drawn.column(name) for name in drawn.column_names}
    return pa.table(columns | {n: smallest_integers(v) for n, v in new.items()}), documents


def _present(context: Context, count: int) -> dict[str, list[int]]:
    """The values that the rows of any file have, by column, rising."""
    parts = [context.home.json(f"{PRESENT}-{shard}") for shard in range(count)]
    return {name: sorted(set().union(*(part[name] for part in parts))) for name in parts[0]}


def _whole(context: Context, name: str, offsets: list[int]) -> pa.Table:
    """The parts of a table, one after the other.

    Raises:
        ContractError: They do not make up the table.
    """
    scratch = context.home.scratch
    parts = [context.home.table(f"{name}-{shard}") for shard in range(len(offsets) - 1)]
    if [part.num_rows for part in parts] != np.diff(offsets).tolist():
        raise ContractError(
            f"The parts of {context.party}'s table do not make up the table.",
            "Clear list_shards, and what comes after it.",
        )
    columns: dict[str, pa.Array] = {}
    for column in parts[0].column_names:
        values = [narrow_integers(part, column) for part in parts]
        # Each part has the smallest type that holds it, so the widest of them holds the whole.
        signed = any(np.issubdtype(value.dtype, np.signedinteger) for value in values)
        kind = np.dtype(np.int64) if signed else np.result_type(*values)
        whole = scratch.zeros(offsets[-1], kind)
        for begin, value in zip(offsets, values, strict=False):
            for some in slices(len(value)):
                whole[begin + some.start : begin + some.stop] = value[some]
                let_go()
        columns[column] = smallest_integers(whole, scratch)
    return pa.table(columns)
