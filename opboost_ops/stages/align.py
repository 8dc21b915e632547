"""Arrow: digests -> the common row order and the holdout, told by each party's own list."""

from collections.abc import Callable, Iterator

import numpy as np
import pyarrow as pa

from opboost_ops.config.training import HoldoutColumn
from opboost_ops.errors import ContractError
from opboost_ops.exchange.artifact import Draft
from opboost_ops.exchange.encoding import smallest_integers
from opboost_ops.scratch.arrays import Scratch, let_go, slices
from opboost_ops.scratch.parts import gathered
from opboost_ops.stages import raw_table
from opboost_ops.stages.alignment import Common, in_common_order
from opboost_ops.stages.alignments import alignment_of
from opboost_ops.stages.chosen import CHOSEN
from opboost_ops.stages.keyed import MEMBERSHIP
from opboost_ops.stages.least_common import too_few
from opboost_ops.stages.psi_session import changed
from opboost_ops.stages.raw_blocks import blocks
from opboost_ops.stages.stage import Context, Outcome

#: Bits by which numbers are told apart first.
_FIRST = 16


def align(context: Context) -> Outcome:
    """Intersect the parties' digests and choose the held-out rows; new rows are all held out.

    The common order is the order of the digests. The held-out rows are those whose digest's
    last eight bytes are least (a keyed hash, independent of the order), or those that a
    boolean column of the label holder names. With DPBoost they are those where these bytes are
    below a fixed number. With decoys nobody is told anything.

    Raises:
        ContractError: A party sends a digest twice or in another order than theirs, or too few
            people are common to all.
    """
    assert context.acceptance is not None
    way = alignment_of(context.federation.alignment_mode)
    common = way.find(context)
    if not len(common.rows):
        raise ContractError("No ID is common to all parties.", way.nobody())
    scratch = context.home.scratch
    few = too_few(context, len(common.rows))
    if few is not None:
        return few
    held = _held_out(context, common)
    holdout = sum(int(held[rows].sum()) for rows in slices(len(held)))
    train = len(held) - holdout
    decoys = context.federation.has_decoys
    if context.purpose == "train" and not (train and holdout):
        counted = "Of all common rows none or all"
        if not decoys:
            counted = f"Of {len(held)} common rows {holdout}"
        raise ContractError(
            f"{counted} are held out: both sides need rows.",
            "Change training.holdout.",
        )
    answers = {party: common.told(party, held) for party in context.federation.feature_holders}
    facts = {"train": train, "holdout": holdout}
    positions = in_common_order(scratch, common.rows, held, train)
    tables = {"alignment": pa.table({"position": smallest_integers(positions, scratch)})}
    if decoys:
        # What would be told stays here, and picks the common people out of everybody's values.
        (answer,) = answers.values()
        return Outcome(
            tables={**tables, CHOSEN: answer.table}, documents={"alignment": facts}, summary=facts
        )
    drafts = tuple(
        Draft(
            kind="alignment",
            about=party,
            table=answer.table,
            entries=answer.entries,
            document=facts,
            rows=len(held),
            answers=context.acceptance.memory.digest(way.answers, party),
            discloses=MEMBERSHIP,
        )
        for party, answer in answers.items()
    )
    return Outcome(
        tables=tables,
        documents={"alignment": facts},
        drafts=drafts,
        summary=facts,
    )


def _held_out(context: Context, common: Common) -> np.ndarray:
    scratch = context.home.scratch
    if context.purpose == "score":
        return _together(scratch, len(common.rows), (np.ones(len(b), bool) for b in common.tails()))
    rule = context.federation.training.holdout
    if isinstance(rule, HoldoutColumn):
        return gathered(scratch, _declared(context, rule.column), common.rows)
    if context.federation.training.trainer == "dpboost":
        # Each row by itself: with an exact share, a row more may move another to the other side.
        below = np.uint64(int(rule * 2**64))
        return _together(scratch, len(common.rows), (b < below for b in common.tails()))
    return least(common.tails, round(len(common.rows) * rule), scratch)


def _declared(context: Context, name: str) -> np.ndarray:
    """Which rows of the own table a column says are held out, bool, shape (n,)."""
    rows = context.home.json("table")["rows"]

    def told() -> Iterator[np.ndarray]:
        left = rows
        for block in blocks(context, [name]):
            left -= block.height
            if left < 0:
                break
            column = block.get_column(name)
            raw_table.require_holdout(column)
            yield column.to_numpy()
        if left:
            raise changed(context)

    return _together(context.home.scratch, rows, told())


def _together(scratch: Scratch, rows: int, blocks: Iterator[np.ndarray]) -> np.ndarray:
    """What is true of which rows, bool, shape (n,)."""
    found, end = scratch.zeros(rows, bool), 0
    for block in blocks:
        begin, end = end, end + len(block)
        found[begin:end] = block
        let_go()
    return found


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

    return _together(scratch, int(ends[-1]), found())


def _first(block: np.ndarray) -> np.ndarray:
    return (block >> np.uint64(64 - _FIRST)).astype(np.int64)
