"""Arrow: digests -> the common row order and the holdout, told as positions."""

import numpy as np
import polars as pl
import pyarrow as pa

from opboost_ops.config.federation import HoldoutColumn
from opboost_ops.errors import ContractError
from opboost_ops.exchange.artifact import Draft
from opboost_ops.exchange.encoding import smallest_integers
from opboost_ops.stages import raw_table
from opboost_ops.stages.stage import Context, Outcome

DISCLOSES = "which of its rows all parties have (membership), and which of them are held out"


def align(context: Context) -> Outcome:
    """Intersect the parties' digests and choose the held-out rows; new rows are all held out.

    The common order is the order of the digests. The held-out rows are those whose digest's
    last eight bytes are least (a keyed hash, independent of the order), or those that a
    boolean column of the label holder names. With DPBoost they are those where these bytes are
    below a fixed number.

    Raises:
        ContractError: A party sends a digest twice, or too few people are common to all.
    """
    own = context.federation.label_holder
    parties = (own, *context.federation.feature_holders)
    common: pl.DataFrame | None = None
    for party in parties:
        table = (
            context.home.table("digests")
            if party == own
            else context.receive("digests", party).table
        )
        digests = _numbers(table)
        if digests.n_unique() != len(digests):
            raise ContractError(
                f"{party} sent the same ID digest twice.", "Its table must have one row an ID."
            )
        frame = pl.DataFrame({"digest": digests}).with_row_index(party)
        common = frame if common is None else common.join(frame, on="digest", how="inner")
    assert common is not None
    common = common.sort("digest")
    if common.height == 0:
        raise ContractError(
            "No ID is common to all parties.",
            "Check that all mean the same ID column, type and alignment key.",
        )
    held = _held_out(context, common)
    if context.purpose == "train" and (held.all() or not held.any()):
        raise ContractError(
            f"Of {common.height} common rows {int(held.sum())} are held out: both sides need rows.",
            "Change training.holdout.",
        )
    order = np.concatenate([np.flatnonzero(~held), np.flatnonzero(held)])
    train, holdout = int((~held).sum()), int(held.sum())
    positions = {
        party: pa.table({"position": smallest_integers(common[party].to_numpy()[order])})
        for party in parties
    }
    drafts = tuple(
        Draft(
            kind="alignment",
            about=party,
            table=positions[party],
            document={"train": train, "holdout": holdout},
            rows=common.height,
            answers=context.receive("digests", party).digest,
            discloses=DISCLOSES,
        )
        for party in context.federation.feature_holders
    )
    return Outcome(
        tables={"alignment": positions[own]},
        documents={"alignment": {"train": train, "holdout": holdout}},
        drafts=drafts,
        summary={"train": train, "holdout": holdout},
    )


def _numbers(table: pa.Table) -> pl.Series:
    """Digests as numbers of 128 bits, which have their order and are sorted much faster."""
    digests = pl.Series("digest", table.column("digest").cast(pa.binary()))
    return digests.bin.reinterpret(dtype=pl.UInt128, endianness="big")


def _held_out(context: Context, common: pl.DataFrame) -> np.ndarray:
    if context.purpose == "score":
        return np.ones(common.height, dtype=bool)
    rule = context.federation.training.holdout
    if isinstance(rule, HoldoutColumn):
        column = raw_table.read(context, [rule.column]).get_column(rule.column)
        raw_table.require_holdout(column)
        return np.asarray(column.to_numpy()[common[context.federation.label_holder].to_numpy()])
    last_bytes = pl.lit(1 << 64, dtype=pl.UInt128)
    tails = common.select((pl.col("digest") % last_bytes).cast(pl.UInt64)).to_series().to_numpy()
    if context.federation.training.trainer == "dpboost":
        # Each row by itself: with an exact share, a row more may move another to the other side.
        return np.asarray(tails < np.uint64(int(rule * 2**64)))
    held = np.zeros(common.height, dtype=bool)
    held[np.argsort(tails, kind="stable")[: round(common.height * rule)]] = True
    return held
