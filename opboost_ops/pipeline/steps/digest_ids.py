"""Step: IDs -> digests, which stay at home; with several feature holders, masked shares."""

import pyarrow as pa

from opboost_ops.exchange.artifact import Draft
from opboost_ops.exchange.contents import Layout
from opboost_ops.exchange.files import smallest_integers
from opboost_ops.exchange.sealed import sealing, zero_shares
from opboost_ops.exchange.sealed.ids import TAG
from opboost_ops.exchange.sealed.parts import PartFile, part_count
from opboost_ops.pipeline.inputs import raw_table
from opboost_ops.pipeline.inputs.common_rows import DIGESTS, ORDER, binary, rising_ids
from opboost_ops.pipeline.inputs.holdout import require_rows
from opboost_ops.pipeline.matching import Session, own_points, pair_keys, session_of
from opboost_ops.pipeline.stage import Context, Outcome


def digest_ids(context: Context) -> Outcome:
    """Digest the IDs of the party's table; the table's order is not disclosed.

    The label holder stores digests under its own key, which determine the common order and the
    held-out rows. With several feature holders, each publishes shares, so that a row opens only if
    all of them have the person.

    Raises:
        ContractError: The table is not the one that was checked, or has too few rows.
    """
    raw_table.require_unchanged(context)
    if context.party == context.federation.label_holder:
        digests, order = rising_ids(context, context.alignment_key())
        tables = {
            DIGESTS: pa.table({"digest": binary(digests)}),
            ORDER: pa.table({"row": smallest_integers(order, context.home.scratch)}),
        }
        return Outcome(tables=tables, summary={"rows": len(order)})
    require_rows(context, context.home.json("table")["rows"])
    session = session_of(context)
    drafts: tuple[Draft, ...] = ()
    if context.federation.has_shares:
        drafts = (_shares(context, session),)
    return Outcome(drafts=drafts, summary={"rows": session.rows})


def _shares(context: Context, session: Session) -> Draft:
    holders, count = context.federation.feature_holders, session.rows + 1
    pairs = pair_keys(context)
    width = TAG * len(pairs)
    content = session.exponent + session.people
    key = sealing.nonce(context.site.read_secret(), "shares", session.place, content)
    sent = PartFile(context.home.scratch, width, part_count(count))
    points = own_points(context, session)
    people: list[int] = []
    numbers: list[int] = []
    for layout in zero_shares.layouts(
        context.home.scratch,
        ((messages, points[rows]) for messages, rows in session.everybody()),
        count,
        session.seed,
        key,
        pairs,
        holders.index(context.party),
    ):
        sent.add(len(people), layout.content)
        people.append(layout.people)
        numbers.append(layout.number)
    return Draft(
        kind="shares",
        about=context.party,
        entries=sent,
        document=Layout(key, width, tuple(people), tuple(numbers)).document(),
        rows=session.rows,
        answers=context.plan,
    )
