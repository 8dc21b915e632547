"""Arrow: IDs -> person keys, which stay home, and what the other side needs to find people."""

import pyarrow as pa

from opboost_ops.stages.alignments import alignment_of
from opboost_ops.stages.held import keyed_people
from opboost_ops.stages.keyed import keyed_ids, rising_ids
from opboost_ops.stages.positions import ORDER, binary, order_table
from opboost_ops.stages.psi_session import changed, require_unchanged
from opboost_ops.stages.stage import Context, Outcome

__all__ = ["changed", "digest_ids"]


def digest_ids(context: Context) -> Outcome:
    """Digest the IDs of the party's table: no order of the table leaves.

    The label holder keeps digests under its own key, from which common order and held-out rows
    follow. A feature holder keeps person keys in its table's order, lays out what the federation's
    way of alignment asks for, and keeps what leads back from it to its rows.

    Raises:
        ContractError: The table is not the one that was checked.
    """
    require_unchanged(context)
    if context.party == context.federation.label_holder:
        digests, order = rising_ids(context, context.alignment_key())
        tables = {
            "digests": pa.table({"digest": binary(digests)}),
            ORDER: order_table(order, context.home.scratch),
        }
        return Outcome(tables=tables, summary={"rows": len(order)})
    laid = alignment_of(context.federation.alignment_mode).lay_out(context)
    secret = context.noise_secret()
    keys = keyed_people(binary(keyed_ids(context, secret)), secret)
    return Outcome(
        tables={**laid.home, "person_keys": keys},
        drafts=(laid.draft,),
        summary={"rows": laid.draft.rows},
    )
