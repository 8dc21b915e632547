"""Arrow: answers and sealed tables -> rows of the common people, in the common order."""

from collections.abc import Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from opboost_ops.errors import ContractError
from opboost_ops.exchange.encoding import narrow_integers, smallest_integers
from opboost_ops.exchange.sealed.row_formats import Rows
from opboost_ops.pipeline.inputs.holdout import held_out_rows
from opboost_ops.pipeline.inputs.id_digests import ORDER
from opboost_ops.pipeline.inputs.least_rows import require_common
from opboost_ops.pipeline.matching.opened_rows import Opened, open_tables
from opboost_ops.pipeline.stage import Context, Outcome
from opboost_ops.tables.spill.arrays import Scratch, slices
from opboost_ops.tables.spill.parts import gather

#: Folder of what a label holder keeps beyond its runs: rows of the last releases, by purpose.
_RELEASED = "released_rows"


def opened_table(holder: str) -> str:
    """Name of the table of a feature holder's rows of the common people, in the common order.

    Args:
        holder: Its name.
    """
    return f"opened-{holder}"


def members_table(holder: str) -> str:
    """Name of the table that says which rows of the common order a feature holder has.

    It is there with ``overlap: left``.

    Args:
        holder: Its name.
    """
    return f"members-{holder}"


def open_rows(context: Context) -> Outcome:
    """Open the rows of people whom all parties have, and choose those that are held out.

    With ``overlap: left`` all rows of the label holder are there, and values of a feature holder
    that lacks the person are missing.

    The common order is that of the label holder's own digests. `holdout` says which rows are held
    out; new rows are all held out.

    What is in a single row never stops the run, nor who is in a table: ranks outside of what is
    declared are clipped, and a person who does not open at all feature holders is left out. How
    many these are stays at home.

    Raises:
        ContractError: Keys or versions of the parties differ, or too few people are common to all.
        ApprovalError: A release has under half as many rows as the last one, and nobody has
            approved it.
        Rejected: An answer or a table is not what it must be.
    """
    tables = rows_of(context)
    released = {
        holder: context.receive(of.kind, holder).manifest.rows for holder, of in tables.items()
    }
    _require_as_large(context, released)
    opened = open_tables(context, tables)
    left = context.federation.keeps_all
    common = _common(context, opened)
    scratch = context.home.scratch
    people = sum(int(common[some].sum()) for some in slices(len(common)))
    require_common(context, people)
    if left:
        common[:] = True
    rows = _in_digest_order(context, common)
    held_out = _held_out(context, rows)
    holdout = sum(int(held_out[some].sum()) for some in slices(len(held_out)))
    train = len(held_out) - holdout
    if context.purpose == "train" and not (train and holdout):
        raise ContractError(
            "None or all of the common rows are held out: training and evaluation both need rows.",
            "Change training.holdout.",
        )
    positions = _training_first(scratch, rows, held_out, train)
    contents = {"alignment": pa.table({"position": smallest_integers(positions, scratch)})}
    for holder, (present, packed) in opened.items():
        there = gather(scratch, present, positions)
        columns = tables[holder].unpack(gather(scratch, packed, positions))
        contents[opened_table(holder)] = pa.table(
            {
                name: _where(there, smallest_integers(values, scratch)) if left
                else smallest_integers(values, scratch)
                for name, values in columns.items()
            }
        )  # fmt: skip
        if left:
            contents[members_table(holder)] = pa.table({"there": pa.array(there)})
    facts = {"train": train, "holdout": holdout}
    return Outcome(
        tables=contents,
        documents={"alignment": facts},
        lasting={f"{_RELEASED}/{context.purpose}": released},
        summary=facts,
    )


def _require_as_large(context: Context, released: Mapping[str, int]) -> None:
    """Ask the party's people about releases of under half as many rows as the last ones.

    How many rows there are is the feature holder's choice, so a refusal tells nothing of others.
    """
    assert context.confirm is not None
    name = f"{_RELEASED}/{context.purpose}"
    before = context.lasting.json(name) if context.lasting.has(name) else {}
    shrunk = [
        f"{holder} released {rows:,} rows, and {before[holder]:,} before"
        for holder, rows in released.items()
        if 2 * rows < before.get(holder, 0)
    ]
    if shrunk:
        context.confirm(shrunk)


def rows_of(context: Context) -> dict[str, Rows]:
    """Kind and form of the rows that each feature holder seals for the run's frame.

    Args:
        context: The label holder's.
    """
    by_holder = {}
    for holder in context.federation.feature_holders:
        columns = context.columns(holder)
        kind = "ranks" if context.purpose == "train" else "values"
        if context.purpose == "score" and context.federation.scoring.mode == "routed":
            by_holder[holder] = routed_rows(context, holder)
            continue
        by_holder[holder] = Rows(kind, columns)
    return by_holder


def routed_rows(context: Context, holder: str) -> Rows:
    """Kind and form of a feature holder's cells between the thresholds that were asked for.

    Args:
        context: The label holder's.
        holder: Whose.
    """
    thresholds = context.receive("route_request", holder).document["thresholds"]
    columns = [column for column in context.columns(holder) if column.name in thresholds]
    return Rows("routes", columns, thresholds)


def _where(there: np.ndarray, values: pa.Array) -> pa.Array:
    return pc.if_else(pa.array(there), values, pa.scalar(None, values.type))


def _common(context: Context, opened: dict[str, Opened]) -> np.ndarray:
    """Whose rows opened, bool, shape (n,), by rows of the own table: at all, or at any."""
    every = list(opened.values())
    left = context.federation.keeps_all
    both, rows = np.logical_or if left else np.logical_and, len(every[0][0]) - 1
    blocks = (both.reduce([there[some] for there, _ in every]) for some in slices(rows))
    return context.home.scratch.filled(rows, bool, blocks)


def _in_digest_order(context: Context, common: np.ndarray) -> np.ndarray:
    """The common rows in the order of the own digests, which no other party can make."""
    scratch, listed = context.home.scratch, narrow_integers(context.home.table(ORDER), "row")
    wanted = gather(scratch, common, listed)
    count = sum(int(wanted[some].sum()) for some in slices(len(wanted)))
    blocks = (listed[some][wanted[some]] for some in slices(len(wanted)))
    return scratch.filled(count, listed.dtype, blocks)


def _training_first(
    scratch: Scratch, rows: np.ndarray, held_out: np.ndarray, train: int
) -> np.ndarray:
    """The common order: training rows first, each side by the label holder's digests."""
    order = scratch.zeros(len(rows), rows.dtype)
    ends = {False: 0, True: train}
    for some in slices(len(rows)):
        for side, end in ends.items():
            part = rows[some][held_out[some] == side]
            ends[side] = end + len(part)
            order[end : ends[side]] = part
    return order


def _held_out(context: Context, rows: np.ndarray) -> np.ndarray:
    """Which of the common rows, in the order of the digests, are held out, bool, shape (c,)."""
    scratch = context.home.scratch
    if context.purpose == "score":
        ones = (np.ones(some.stop - some.start, bool) for some in slices(len(rows)))
        return scratch.filled(len(rows), bool, ones)
    return gather(scratch, held_out_rows(context), rows)
