"""Arrow: the label holder's IDs -> blinded points, for every feature holder the same."""

import pyarrow as pa

from opboost_ops.alignment import oprf
from opboost_ops.exchange.artifact import Draft
from opboost_ops.exchange.encoding import smallest_integers
from opboost_ops.stages.private import ASKED, QUERIED
from opboost_ops.stages.psi_session import session_of
from opboost_ops.stages.stage import Context, Outcome


def psi_query(context: Context) -> Outcome:
    """Ask all feature holders about the rows of the own table, in an order that tells nothing.

    Raises:
        ContractError: The table was rewritten, or an ID is missing, is there twice, or could be
            written otherwise.
    """
    session = session_of(context)
    query = oprf.blind(session.engine, session.seed, context.federation.name, session.messages)
    drafts = tuple(
        Draft(
            kind="psi_query",
            about=holder,
            entries=query.points,
            rows=len(session.messages),
            answers=context.plan,
            discloses=ASKED,
        )
        for holder in context.federation.feature_holders
    )
    return Outcome(
        tables={QUERIED: pa.table({"row": smallest_integers(query.rows)})},
        drafts=drafts,
        summary={"rows": len(session.messages)},
    )
