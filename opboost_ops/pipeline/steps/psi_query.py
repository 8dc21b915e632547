"""Step: the label holder's IDs -> blinded points of people whose points it does not know yet."""

import numpy as np
import pyarrow as pa

from opboost_ops.exchange.artifact import Draft
from opboost_ops.exchange.files import narrow_integers, smallest_integers
from opboost_ops.exchange.sealed import oprf
from opboost_ops.exchange.sealed.curve import POINT
from opboost_ops.exchange.sealed.parts import PartFile, part_count
from opboost_ops.pipeline.matching import Session, session_of
from opboost_ops.pipeline.stage import Context, Outcome
from opboost_ops.tables.spill.arrays import release_memory

#: Prefix of the tables with the row number of each point of a query.
QUERIED = "psi_query"


def queried(holder: str) -> str:
    """Return the name of what is stored about the query to a feature holder.

    Args:
        holder: Name of the feature holder.
    """
    return f"{QUERIED}-{holder}"


def psi_query(context: Context) -> Outcome:
    """Query each feature holder about people who are new this month, in a shuffled order.

    Every query contains the canary message that all parties add: its answer shows whether the
    feature holder's key is still the one of the cached points.

    Raises:
        ContractError: The table was rewritten, or an ID is missing, repeated or has several forms.
    """
    session = session_of(context)
    tables, documents, drafts = {}, {}, []
    by_rows: dict[bytes, tuple[PartFile, np.ndarray]] = {}
    for holder in context.federation.feature_holders:
        wanted = _rows_to_query(context, session, holder)
        # People new to one feature holder are mostly new to all, so reuse the points.
        name = wanted.tobytes()
        if name not in by_rows:
            by_rows[name] = _blinded_query(context, session, wanted)
        sent, rows = by_rows[name]
        tables[queried(holder)] = pa.table({"row": smallest_integers(rows, context.home.scratch)})
        documents[queried(holder)] = {"parts": sent.counts}
        drafts.append(
            Draft(
                kind="psi_query",
                about=holder,
                entries=sent,
                rows=len(rows) - 1,
                answers=context.plan,
            )
        )
    session.forget_blocks()
    return Outcome(
        tables=tables, documents=documents, drafts=tuple(drafts), summary={"rows": session.rows}
    )


def _rows_to_query(context: Context, session: Session, holder: str) -> np.ndarray:
    """Return which rows to query, bool; a retry queries those of the first attempt.

    The canary, the last entry, is no row: it is added to every query.
    """
    wanted = np.zeros(session.rows + 1, dtype=bool)
    if context.home.has(queried(holder)):
        rows = narrow_integers(context.home.table(queried(holder)), "row")
        wanted[rows[rows < session.rows]] = True
        return wanted
    cached, _ = session.cache(holder).find(session.messages(), session.rows)
    wanted[:-1] = ~cached
    return wanted


def _blinded_query(
    context: Context, session: Session, wanted: np.ndarray
) -> tuple[PartFile, np.ndarray]:
    """Return blinded points, and the row of each; the canary's row is the table's row count."""
    scratch, places = context.home.scratch, np.flatnonzero(wanted)
    count = len(places) + 1
    sent = PartFile(scratch, POINT, part_count(count))
    rows, end = scratch.zeros(count, np.min_scalar_type(session.rows)), 0
    places = np.append(places, session.rows)
    for part, points, own in oprf.blind(
        session.engine,
        session.exponent,
        context.federation.name,
        (messages for messages, _ in session.chosen(wanted)),
        count - 1,
        scratch,
    ):
        sent.add(part, points)
        begin, end = end, end + len(own)
        rows[begin:end] = places[own]
        release_memory()
    return sent, rows
