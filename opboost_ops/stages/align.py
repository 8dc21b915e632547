"""Arrow: digests -> the common row order and the holdout, told by each party's own list."""

import numpy as np
import polars as pl
import pyarrow as pa

from opboost_ops.config.federation import HoldoutColumn
from opboost_ops.errors import ContractError
from opboost_ops.exchange.artifact import Draft
from opboost_ops.exchange.encoding import smallest_integers
from opboost_ops.stages import raw_table
from opboost_ops.stages.alignment import Common, common_order
from opboost_ops.stages.alignments import alignment_of
from opboost_ops.stages.keyed import MEMBERSHIP
from opboost_ops.stages.least_common import too_few
from opboost_ops.stages.stage import Context, Outcome


def align(context: Context) -> Outcome:
    """Intersect the parties' digests and choose the held-out rows; new rows are all held out.

    The common order is the order of the digests. The held-out rows are those whose digest's
    last eight bytes are least (a keyed hash, independent of the order), or those that a
    boolean column of the label holder names. With DPBoost they are those where these bytes are
    below a fixed number.

    Raises:
        ContractError: A party sends a digest twice or in another order than theirs, or too few
            people are common to all.
    """
    way = alignment_of(context.federation.alignment_mode)
    common = way.find(context)
    if not len(common.rows):
        raise ContractError("No ID is common to all parties.", way.nobody())
    few = too_few(context, len(common.rows))
    if few is not None:
        return few
    held = _held_out(context, common)
    if context.purpose == "train" and (held.all() or not held.any()):
        raise ContractError(
            f"Of {len(held)} common rows {int(held.sum())} are held out: both sides need rows.",
            "Change training.holdout.",
        )
    order = common_order(held)
    answers = {party: common.told(party, held) for party in context.federation.feature_holders}
    train, holdout = int((~held).sum()), int(held.sum())
    drafts = tuple(
        Draft(
            kind="alignment",
            about=party,
            table=answer.table,
            entries=answer.entries,
            document={"train": train, "holdout": holdout},
            rows=len(order),
            answers=context.receive(way.answers, party).digest,
            discloses=MEMBERSHIP,
        )
        for party, answer in answers.items()
    )
    return Outcome(
        tables={"alignment": pa.table({"position": smallest_integers(common.rows[order])})},
        documents={"alignment": {"train": train, "holdout": holdout}},
        drafts=drafts,
        summary={"train": train, "holdout": holdout},
    )


def _held_out(context: Context, common: Common) -> np.ndarray:
    if context.purpose == "score":
        return np.ones(len(common.rows), dtype=bool)
    rule = context.federation.training.holdout
    if isinstance(rule, HoldoutColumn):
        column = raw_table.read(context, [rule.column]).get_column(rule.column)
        raw_table.require_holdout(column)
        return np.asarray(column.to_numpy()[common.rows])
    last_bytes = pl.lit(1 << 64, dtype=pl.UInt128)
    digests = pl.DataFrame({"digest": common.digests})
    tails = digests.select((pl.col("digest") % last_bytes).cast(pl.UInt64)).to_series().to_numpy()
    if context.federation.training.trainer == "dpboost":
        # Each row by itself: with an exact share, a row more may move another to the other side.
        return np.asarray(tails < np.uint64(int(rule * 2**64)))
    held = np.zeros(len(common.rows), dtype=bool)
    held[np.argsort(tails, kind="stable")[: round(len(common.rows) * rule)]] = True
    return held
