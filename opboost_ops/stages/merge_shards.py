"""What was made of each file of the party's table -> whole tables, as one file would give them."""

from collections import Counter
from typing import Any

import numpy as np
import pyarrow as pa

from opboost_ops.errors import ContractError
from opboost_ops.exchange.encoding import narrow_integers, smallest_integers
from opboost_ops.scratch.arrays import Scratch, let_go, slices
from opboost_ops.scratch.parts import gathered, scattered
from opboost_ops.stages.desensitize import randomised
from opboost_ops.stages.encode_rows import joined_rows
from opboost_ops.stages.held import HELD, held_values, person_keys
from opboost_ops.stages.preprocess import facts
from opboost_ops.stages.rank import PRESENT, present_values
from opboost_ops.stages.released import released
from opboost_ops.stages.stage import SHARDS, Context, Outcome


def merge_shards(context: Context) -> Outcome:
    """Put the parts together: what comes after finds what one file would have given.

    In horizontal learning they are put one after the other. Elsewhere all files together are one
    draw. It is taken here, of the whole table; the few cells that are
    at their cap are randomised once more, as the values that may go.

    Raises:
        BudgetError: A budget would be passed, or a cell state is lost; nothing was charged.
        ContractError: The parts do not make up the aligned rows; in horizontal learning, no row is
            left to train on or to hold out.
    """
    if context.federation.learning == "horizontal":
        return joined_rows(context)
    count = len(context.home.json(SHARDS)["sha256"])
    wanted = released(context)
    rows = wanted.count
    places = [narrow_integers(context.home.table(f"positions-{i}"), "place") for i in range(count)]
    if not _make_up(context.home.scratch, places, rows):
        raise ContractError(
            f"The parts of {context.party}'s table do not make up the aligned rows.",
            "Clear list_shards, and what comes after it.",
        )
    tables = {
        "preprocessed": _whole(context, "preprocessed", places, rows),
        "positions": _whole(context, "positions", places, rows, ("position",)),
    }
    clipped: Counter[str] = Counter()
    for shard in range(count):
        clipped.update(context.home.json(f"preprocessed-{shard}")["clipped"])
    documents: dict[str, Any] = {"preprocessed": facts(wanted, dict(clipped))}
    if "desensitize" in context.stages:
        drawn = _whole(context, "randomised", places, rows)
        tables["randomised"], more = _drawn(context, count, wanted.train, tables, drawn)
        documents |= more
    return Outcome(tables=tables, documents=documents, summary={"rows": rows, "shards": count})


def _drawn(
    context: Context,
    count: int,
    train: int,
    tables: dict[str, pa.Table],
    drawn: pa.Table,
) -> tuple[pa.Table, dict[str, Any]]:
    """What may go of the randomised rows, and what is kept beside it."""
    positions, scratch = narrow_integers(tables["positions"], "position"), context.home.scratch
    keys = gathered(scratch, person_keys(context), positions)
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
            name: present_values(values[:train]).tolist() for name, values in new.items()
        }
    columns = {name: drawn.column(name) for name in drawn.column_names}
    return pa.table(columns | {n: smallest_integers(v) for n, v in new.items()}), documents


def _present(context: Context, count: int) -> dict[str, list[int]]:
    """The values that the training rows of any file have, by column, rising."""
    parts = [context.home.json(f"{PRESENT}-{shard}") for shard in range(count)]
    return {name: sorted(set().union(*(part[name] for part in parts))) for name in parts[0]}


def _make_up(scratch: Scratch, places: list[np.ndarray], rows: int) -> bool:
    """Whether each row has its place in one of the parts."""
    if sum(map(len, places)) != rows:
        return False
    found = scratch.zeros(rows, bool)
    for place in places:
        for some in slices(len(place)):
            if place[some].max() >= rows:
                return False
            found[place[some]] = True
            let_go()
    return all(found[some].all() for some in slices(rows))


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
        kind = np.dtype(np.int64) if signed else np.result_type(*values)
        pieces = ((place, {"": value}) for place, value in zip(places, values, strict=True))
        whole = scattered(context.home.scratch, pieces, rows, {"": kind})[""]
        columns[column] = smallest_integers(whole, context.home.scratch)
    return pa.table(columns)
