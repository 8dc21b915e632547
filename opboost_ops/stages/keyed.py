"""Alignment by keyed digests: the label holder compares digests under a key that all share."""

from collections.abc import Iterator

import numpy as np
import polars as pl
import pyarrow as pa

from opboost_ops.config.federation import Federation
from opboost_ops.errors import ContractError
from opboost_ops.exchange.artifact import Draft
from opboost_ops.exchange.encoding import smallest_integers
from opboost_ops.exchange.manifest import Kind
from opboost_ops.mechanisms import noise
from opboost_ops.stages.alignment import Common, Laid, Told
from opboost_ops.stages.positions import ORDER, binary, numbers, order_table, own_rows, rising
from opboost_ops.stages.raw_blocks import blocks
from opboost_ops.stages.stage import Context

DISCLOSES = (
    "row count, and a keyed digest of every ID, in rising order: whoever holds the federation's "
    "alignment key can test guessed IDs against them"
)
MEMBERSHIP = "which of its rows all parties have (membership), and which of them are held out"


class Keyed:
    """`alignment: keyed`."""

    answers: Kind = "digests"

    def lay_out(self, context: Context) -> Laid:
        """A feature holder's digests in rising order: no order of the table leaves."""
        digests = keyed_ids(context, context.alignment_key())
        order = rising(digests)
        table = pa.table({"digest": binary(digests[order])})
        draft = Draft(
            kind="digests",
            about=context.party,
            table=table,
            rows=len(order),
            answers=context.plan,
            discloses=DISCLOSES,
        )
        return Laid(draft, {"digests": table, ORDER: order_table(order)})

    def find(self, context: Context) -> Common:
        """The common people, by their digests.

        Raises:
            ContractError: A party sends a digest twice or in another order than theirs.
        """
        own = context.federation.label_holder
        common: pl.DataFrame | None = None
        for party in (own, *context.federation.feature_holders):
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
                    f"{party} sent its ID digests in another order than theirs, which tells the "
                    "order of its table.",
                    f"{party} runs an older version: it is to upgrade before it sends any more.",
                )
            frame = pl.DataFrame({"digest": digests}).with_row_index(party)
            common = frame if common is None else common.join(frame, on="digest", how="inner")
        assert common is not None
        found = common.sort("digest")

        def told(holder: str, order: np.ndarray) -> pa.Table:
            return pa.table({"position": smallest_integers(found[holder].to_numpy()[order])})

        # From here on the label holder's own places are rows of its table.
        rows = own_rows(context, found[own].to_numpy())
        return Common(rows, found.get_column("digest"), told)

    def disclosures(self, federation: Federation) -> Iterator[Told]:
        """What leaves, exact, with no epsilon: from whom, to whom, and what."""
        owner = federation.label_holder
        for holder in federation.feature_holders:
            yield holder, owner, DISCLOSES
            yield owner, holder, MEMBERSHIP

    def nobody(self) -> str:
        """What to look at where nobody is common to all."""
        return "Check that all mean the same ID column, type and alignment key."


def keyed_ids(context: Context, secret: bytes) -> np.ndarray:
    """A key of each person of the party's table, uint8, shape (n, 16).

    Args:
        context: The party's.
        secret: Under which.
    """
    identity = context.federation.id
    parts = [
        noise.person_keys(secret, block.get_column(identity.column).to_arrow(), identity.type)
        for block in blocks(context, [identity.column])
    ]
    return np.concatenate(parts)
