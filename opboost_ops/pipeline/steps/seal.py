"""Step: checked table of ranks or values -> each person's row, sealed; the whole table."""

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from opboost_ops.errors import ContractError
from opboost_ops.exchange.artifact import Draft
from opboost_ops.exchange.contents import Layout
from opboost_ops.exchange.sealed import sealing, zero_shares
from opboost_ops.exchange.sealed.ids import TAG
from opboost_ops.exchange.sealed.parts import PartFile, part_count
from opboost_ops.exchange.sealed.sealing import Rows
from opboost_ops.exchange.store.places import require_room
from opboost_ops.mechanisms.noise import keyed_by
from opboost_ops.pipeline.matching import Session, own_points, pair_keys, session_of
from opboost_ops.pipeline.stage import Context, Outcome
from opboost_ops.pipeline.steps.desensitize import RECORDED
from opboost_ops.privacy.consent.compliance import require_consent
from opboost_ops.privacy.loss import column_losses
from opboost_ops.tables.spill.arrays import slices


def seal(context: Context) -> Outcome:
    """Publish everyone's ranks, or values of new rows, each row sealed separately.

    The publication depends on the own table, the plan and the party's keys, and on no query.

    Raises:
        ContractError: The release was not checked, or is not what was drawn; or the disk is full.
        PolicyError: The party's policy does not allow it.
    """
    context.require_passed("checked_release")
    require_consent(context.policy, context.federation, context.party)
    columns = context.columns()
    ranked = "rank" in context.stages
    rows = Rows("ranks" if ranked else "values", columns)
    table = context.home.table("ranks" if ranked else "randomised")
    session = session_of(context)
    entries, layout = sealed_table(context, session, rows, table)
    draft = Draft(
        kind=rows.kind,
        about=context.party,
        entries=entries,
        document=layout.document(),
        rows=session.rows,
        columns=tuple(column.name for column in columns),
        losses=column_losses(columns),
        answers=context.plan,
        releases=context.home.json(RECORDED),
    )
    return Outcome(drafts=(draft,), summary={"rows": session.rows})


def sealed_table(
    context: Context,
    session: Session,
    rows: Rows,
    table: pa.Table,
    more: bytes = b"",
) -> tuple[PartFile, Layout]:
    """Seal a table; return its content and its layout.

    Args:
        context: The feature holder's context.
        session: Its session.
        rows: Kind and format of the rows.
        table: All rows, in the order of the party's table.
        more: Further content that the nonce depends on.

    Raises:
        ContractError: The table has other rows than the party's, or the disk is full.
    """
    if table.num_columns and table.num_rows != session.rows:
        raise ContractError(
            f"What {context.party} is about to seal is not its whole table.",
            "Clear its task `desensitize`, and what comes after it.",
        )
    scratch, width = context.home.scratch, rows.format.width
    count = session.rows + 1
    # Space for the sealed rows, and for their spill files.
    waiting = 0 if scratch.holds(count) else TAG + width
    require_room(context.home.folder, context.party, (sealing.ROW_TAG + width + waiting) * count)
    secret = context.site.read_secret()
    content = sealing.ContentHash(keyed_by(secret, "seal:content"))
    for messages, packed, _ in _packed(session, rows, table):
        content.add(messages, packed)
    holders = context.federation.feature_holders
    pairs = pair_keys(context) if context.federation.has_shares else {}
    own = holders.index(context.party)
    body = session.exponent + content.digest() + more
    points = own_points(context, session)
    for attempt in range(sealing.MOST_ATTEMPTS):
        key = sealing.nonce(secret, rows.kind, session.place, body, attempt)

        def people() -> Iterator[tuple[sealing.Keyed, np.ndarray]]:
            for messages, packed, whose in _packed(session, rows, table):
                zeros = zero_shares.sharings(pairs, messages)[:, own] if pairs else None
                yield (messages, points[whose], zeros), packed

        sent = PartFile(scratch, sealing.ROW_TAG + width, part_count(count))
        try:
            for number, part in enumerate(
                sealing.seal_rows(scratch, people(), count, key, rows.kind, width)
            ):
                sent.add(number, part)
        except sealing.SameTagError:
            continue
        return sent, Layout(key, width)
    raise AssertionError("unreachable: an ID twice is refused before")


def _packed(
    session: Session, rows: Rows, table: pa.Table
) -> Iterator[tuple[list[bytes], np.ndarray, np.ndarray]]:
    """Yield people's messages, packed rows and row numbers; the canary's is last, and empty."""
    for messages, here in session.everybody():
        if here.start == session.rows:
            yield messages, np.zeros((1, rows.format.width), dtype=np.uint8), np.array([here.start])
            continue
        for some in slices(len(messages)):
            part = slice(here.start + some.start, here.start + some.stop)
            at = np.arange(part.start, part.stop)
            if table.num_columns:
                yield messages[some], rows.pack(table, part), at
            else:
                yield messages[some], np.zeros((len(at), rows.format.width), dtype=np.uint8), at
