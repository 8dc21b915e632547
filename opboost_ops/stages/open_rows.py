"""Arrow: answers and sealed tables -> rows of the common people, in the common order."""

from collections.abc import Callable, Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from opboost_ops.alignment.sealing import RowKind
from opboost_ops.config.training import HoldoutColumn
from opboost_ops.errors import ContractError
from opboost_ops.exchange.encoding import narrow_integers, smallest_integers
from opboost_ops.exchange.plan import names_holdout
from opboost_ops.scratch.arrays import Scratch, slices
from opboost_ops.scratch.parts import gather
from opboost_ops.stages import raw_table
from opboost_ops.stages.id_digests import DIGESTS, ORDER, keys_of, tails
from opboost_ops.stages.least_rows import too_few_common
from opboost_ops.stages.opened_rows import Opened, open_tables
from opboost_ops.stages.raw_blocks import unchanged_blocks
from opboost_ops.stages.row_formats import Rows
from opboost_ops.stages.stage import Context, Outcome

#: Bits by which numbers are told apart first.
_FIRST = 16


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

    The common order is that of the label holder's own digests. The held-out rows are those whose
    digest's last eight bytes are least (a keyed hash, independent of the order), or those that a
    boolean column of the label holder names. With DPBoost, and where feature holders must know
    them, they are those where these bytes are below a fixed number. New rows are all held out.

    What is in a single row never stops the run, nor who is in a table: ranks outside of what is
    declared are clipped, and a person who does not open at all feature holders is left out. How
    many these are stays at home.

    Raises:
        ContractError: Keys or versions of the parties differ, or too few people are common to all.
        Rejected: An answer or a table is not what it must be.
    """
    tables = rows_of(context)
    opened = open_tables(context, tables)
    left = context.federation.keeps_all
    common = _common(context, opened)
    scratch = context.home.scratch
    people = sum(int(common[some].sum()) for some in slices(len(common)))
    if not people:
        raise ContractError(
            "No ID is common to all parties.",
            "Keys and versions agree. Check that all mean the same ID column and type, and write "
            "IDs in one form (leading zeros, case).",
        )
    few = too_few_common(context, people)
    if few is not None:
        return few
    if left:
        common[:] = True
    rows = _in_digest_order(context, common)
    held = _held_out(context, common, rows)
    holdout = sum(int(held[some].sum()) for some in slices(len(held)))
    train = len(held) - holdout
    if context.purpose == "train" and not (train and holdout):
        raise ContractError(
            "None or all of the common rows are held out: training and evaluation both need rows.",
            "Change training.holdout.",
        )
    positions = _training_first(scratch, rows, held, train)
    found = {"alignment": pa.table({"position": smallest_integers(positions, scratch)})}
    for holder, (present, packed) in opened.items():
        there = gather(scratch, present, positions)
        columns = tables[holder].unpack(gather(scratch, packed, positions))
        found[opened_table(holder)] = pa.table(
            {
                name: _where(there, smallest_integers(values, scratch)) if left
                else smallest_integers(values, scratch)
                for name, values in columns.items()
            }
        )  # fmt: skip
        if left:
            found[members_table(holder)] = pa.table({"there": pa.array(there)})
    facts = {"train": train, "holdout": holdout}
    return Outcome(
        tables=found,
        documents={"alignment": facts},
        summary=facts,
    )


def rows_of(context: Context) -> dict[str, Rows]:
    """Kind and form of the rows that each feature holder seals for the run's frame.

    Args:
        context: The label holder's.
    """
    found = {}
    for holder in context.federation.feature_holders:
        columns = context.columns(holder)
        kind: RowKind = "ranks" if context.purpose == "train" else "values"
        if context.purpose == "score" and context.federation.scoring.mode == "routed":
            found[holder] = routed_rows(context, holder)
            continue
        found[holder] = Rows(kind, columns)
    return found


def routed_rows(context: Context, holder: str) -> Rows:
    """Kind and form of a feature holder's cells between the thresholds that were asked for.

    Args:
        context: The label holder's.
        holder: Whose.
    """
    asked = context.receive("route_request", holder).document["thresholds"]
    columns = [column for column in context.columns(holder) if column.name in asked]
    return Rows("routes", columns, asked)


def _where(there: np.ndarray, values: pa.Array) -> pa.Array:
    return pc.if_else(pa.array(there), values, pa.scalar(None, values.type))


def _common(context: Context, opened: dict[str, Opened]) -> np.ndarray:
    """Whose rows opened, bool, shape (n,), by rows of the own table: at all, or at any."""
    every = list(opened.values())
    left = context.federation.keeps_all
    both, rows = np.logical_or if left else np.logical_and, len(every[0][0]) - 1
    found = (both.reduce([there[some] for there, _ in every]) for some in slices(rows))
    return context.home.scratch.filled(rows, bool, found)


def _in_digest_order(context: Context, common: np.ndarray) -> np.ndarray:
    """The common rows in the order of the own digests, which no other party can make."""
    scratch, listed = context.home.scratch, narrow_integers(context.home.table(ORDER), "row")
    wanted = gather(scratch, common, listed)
    count = sum(int(wanted[some].sum()) for some in slices(len(wanted)))
    found = (listed[some][wanted[some]] for some in slices(len(wanted)))
    return scratch.filled(count, listed.dtype, found)


def _training_first(scratch: Scratch, rows: np.ndarray, held: np.ndarray, train: int) -> np.ndarray:
    """The common order: training rows first, each side by the label holder's digests."""
    found = scratch.zeros(len(rows), rows.dtype)
    ends = {False: 0, True: train}
    for some in slices(len(rows)):
        for side, end in ends.items():
            chosen = rows[some][held[some] == side]
            ends[side] = end + len(chosen)
            found[end : ends[side]] = chosen
    return found


def _held_out(context: Context, common: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """Which of the common rows, in the order of the digests, are held out, bool, shape (c,)."""
    scratch = context.home.scratch
    if context.purpose == "score":
        ones = (np.ones(some.stop - some.start, bool) for some in slices(len(rows)))
        return scratch.filled(len(rows), bool, ones)
    rule = context.federation.training.holdout
    if isinstance(rule, HoldoutColumn):
        return gather(scratch, _declared(context, rule.column), rows)

    def numbers() -> Iterator[np.ndarray]:
        digests = keys_of(context.home.table(DIGESTS).column("digest"))
        listed = narrow_integers(context.home.table(ORDER), "row")
        wanted = gather(scratch, common, listed)
        for some in slices(len(wanted)):
            yield tails(digests[some][wanted[some]])

    each_by_itself = names_holdout(context.federation, context.purpose)
    if each_by_itself or context.federation.training.trainer == "dpboost":
        # With an exact share, a row more may move another to the other side.
        return scratch.filled(len(rows), bool, (below(found, rule) for found in numbers()))
    return least(numbers, round(len(rows) * rule), scratch)


def below(numbers: np.ndarray, share: float) -> np.ndarray:
    """Which rows are held out where each is by itself, bool, shape (n,).

    Args:
        numbers: Last eight bytes of their digests, uint64, shape (n,).
        share: How many of all, between 0 and 1.
    """
    return np.asarray(numbers < np.uint64(int(share * 2**64)))


def _declared(context: Context, name: str) -> np.ndarray:
    """Which rows of the own table a column says are held out, bool, shape (n,)."""
    rows = context.home.json("table")["rows"]

    def marked() -> Iterator[np.ndarray]:
        for _, block in unchanged_blocks(context, [name]):
            column = block.get_column(name)
            raw_table.require_holdout(column)
            yield column.to_numpy()

    return context.home.scratch.filled(rows, bool, marked())


def least(blocks: Callable[[], Iterator[np.ndarray]], count: int, scratch: Scratch) -> np.ndarray:
    """Which are the least of many numbers, the first of equal ones; no block is kept.

    Args:
        blocks: Gives them, uint64, block by block, as often as it is called.
        count: How many of them are wanted.
        scratch: Where it is told, if they are more than it holds.

    Returns:
        Bool, shape (n,).
    """
    sizes = np.zeros(1 << _FIRST, dtype=np.int64)
    for block in blocks():
        sizes += np.bincount(_first(block), minlength=len(sizes))
    # The last one that is wanted, among those that share its first bits.
    ends = np.cumsum(sizes)
    bucket = int(np.searchsorted(ends, count))
    if not count or bucket == len(ends):
        return np.full(int(ends[-1]), bool(count))
    inside = np.sort(np.concatenate([block[_first(block) == bucket] for block in blocks()]))
    before = int(ends[bucket] - sizes[bucket])
    edge = inside[count - before - 1]
    left = count - before - int(np.searchsorted(inside, edge))

    def found() -> Iterator[np.ndarray]:
        nonlocal left
        for block in blocks():
            equal = block == edge
            equal &= np.cumsum(equal) <= left
            left -= int(equal.sum())
            yield (block < edge) | equal

    return scratch.filled(int(ends[-1]), bool, found())


def _first(block: np.ndarray) -> np.ndarray:
    return (block >> np.uint64(64 - _FIRST)).astype(np.int64)
