"""Arrow: the label holder's IDs -> blinded points, for every feature holder the same."""

import numpy as np
import pyarrow as pa

from opboost_ops.alignment import oprf
from opboost_ops.alignment.curve import POINT
from opboost_ops.alignment.parts import part_count
from opboost_ops.exchange.artifact import Draft
from opboost_ops.exchange.encoding import smallest_integers
from opboost_ops.scratch.arrays import let_go
from opboost_ops.stages.private import QUERIED
from opboost_ops.stages.private_words import asked
from opboost_ops.stages.psi_parts import Sent
from opboost_ops.stages.psi_session import session_of
from opboost_ops.stages.stage import Context, Outcome


def psi_query(context: Context) -> Outcome:
    """Ask all feature holders about the rows of the own table, in an order that tells nothing.

    Raises:
        ContractError: The table was rewritten, or an ID is missing, is there twice, or could be
            written otherwise.
    """
    session, scratch = session_of(context), context.home.scratch
    count = session.rows + 1
    made = Sent(scratch, POINT, part_count(count))
    rows, end = scratch.zeros(count, np.min_scalar_type(session.rows)), 0
    for part, points, own in oprf.ask(
        session.engine,
        session.exponents,
        context.federation.name,
        session.messages(),
        session.rows,
        scratch,
    ):
        made.add(part, points)
        begin, end = end, end + len(own)
        rows[begin:end] = own
        let_go()
    drafts = tuple(
        Draft(
            kind="psi_query",
            about=holder,
            entries=made,
            rows=session.rows,
            answers=context.plan,
            discloses=asked(context.federation),
        )
        for holder in context.federation.feature_holders
    )
    return Outcome(
        tables={QUERIED: pa.table({"row": smallest_integers(rows, scratch)})},
        documents={QUERIED: {"parts": made.counts}},
        drafts=drafts,
        summary={"rows": session.rows},
    )
