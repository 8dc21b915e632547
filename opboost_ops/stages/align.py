"""Arrow: digests -> the common row order and the holdout, told as places in each party's list."""

import numpy as np
import polars as pl
import pyarrow as pa

from opboost_ops.config.federation import HoldoutColumn
from opboost_ops.errors import ContractError
from opboost_ops.exchange.artifact import Draft
from opboost_ops.exchange.encoding import smallest_integers
from opboost_ops.stages import raw_table
from opboost_ops.stages.positions import numbers, own_rows
from opboost_ops.stages.stage import Context, Outcome

DISCLOSES = "which of its rows all parties have (membership), and which of them are held out"


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
    own = context.federation.label_holder
    parties = (own, *context.federation.feature_holders)
    common: pl.DataFrame | None = None
    for party in parties:
        table = (
            context.home.table("digests")
            if party == own
            else context.receive("digests", party).table
        )
        digests = numbers(table.column("digest"))
        if digests.n_unique() != len(digests):
            raise ContractError(
                f"{party} sent the same ID digest twice.", "Its table must have one row an ID."
            )
        if not digests.is_sorted():
            raise ContractError(
                f"{party} sent its ID digests in another order than theirs, which tells the order "
                "of its table.",
                f"{party} runs an older version: it is to upgrade before it sends any more.",
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
    # From here on the label holder's own places are rows of its table.
    rows = own_rows(context, common[own].to_numpy())
    held = _held_out(context, common, rows)
    if context.purpose == "train" and (held.all() or not held.any()):
        raise ContractError(
            f"Of {common.height} common rows {int(held.sum())} are held out: both sides need rows.",
            "Change training.holdout.",
        )
    order = np.concatenate([np.flatnonzero(~held), np.flatnonzero(held)])
    train, holdout = int((~held).sum()), int(held.sum())
    positions = {
        party: _positions(rows if party == own else common[party].to_numpy(), order)
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


def _positions(places: np.ndarray, order: np.ndarray) -> pa.Table:
    return pa.table({"position": smallest_integers(places[order])})


def _held_out(context: Context, common: pl.DataFrame, rows: np.ndarray) -> np.ndarray:
    if context.purpose == "score":
        return np.ones(common.height, dtype=bool)
    rule = context.federation.training.holdout
    if isinstance(rule, HoldoutColumn):
        column = raw_table.read(context, [rule.column]).get_column(rule.column)
        raw_table.require_holdout(column)
        return np.asarray(column.to_numpy()[rows])
    last_bytes = pl.lit(1 << 64, dtype=pl.UInt128)
    tails = common.select((pl.col("digest") % last_bytes).cast(pl.UInt64)).to_series().to_numpy()
    if context.federation.training.trainer == "dpboost":
        # Each row by itself: with an exact share, a row more may move another to the other side.
        return np.asarray(tails < np.uint64(int(rule * 2**64)))
    held = np.zeros(common.height, dtype=bool)
    held[np.argsort(tails, kind="stable")[: round(common.height * rule)]] = True
    return held
