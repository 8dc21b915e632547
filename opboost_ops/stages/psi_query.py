"""Arrow: the label holder's IDs -> blinded points, for every feature holder the same."""

import numpy as np
import pyarrow as pa

from opboost_ops.alignment import oprf
from opboost_ops.alignment.curve import POINT
from opboost_ops.alignment.parts import POINT_RECORD, part_count
from opboost_ops.exchange.artifact import Draft
from opboost_ops.exchange.encoding import smallest_integers
from opboost_ops.stages.private import QUERIED
from opboost_ops.stages.private_words import asked
from opboost_ops.stages.psi_parts import Sent, spill
from opboost_ops.stages.psi_session import session_of
from opboost_ops.stages.stage import Context, Outcome


def psi_query(context: Context) -> Outcome:
    """Ask all feature holders about the rows of the own table, in an order that tells nothing.

    Raises:
        ContractError: The table was rewritten, or an ID is missing, is there twice, or could be
            written otherwise.
    """
    session = session_of(context)
    waiting = spill(context.home, "query", part_count(session.rows + 1), POINT_RECORD)
    numbers = oprf.ask(
        session.engine,
        session.exponents,
        context.federation.name,
        session.messages(),
        session.rows,
        waiting,
    )
    made, rows = Sent(context.home, "query", POINT), []
    for part in numbers:
        points, own = oprf.query_part(waiting, part)
        made.append(points)
        rows.append(own)
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
        tables={QUERIED: pa.table({"row": smallest_integers(np.concatenate(rows))})},
        documents={QUERIED: {"parts": [len(own) for own in rows]}},
        drafts=drafts,
        summary={"rows": session.rows},
    )
