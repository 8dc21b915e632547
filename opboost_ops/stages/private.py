"""Private alignment: an oblivious exchange by which nobody learns who else is in a table."""

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from opboost_ops.alignment import matching, oprf
from opboost_ops.alignment.tags import sorting
from opboost_ops.config.federation import Federation
from opboost_ops.errors import ContractError
from opboost_ops.exchange.artifact import Draft
from opboost_ops.exchange.encoding import narrow_integers, smallest_integers
from opboost_ops.exchange.manifest import Kind
from opboost_ops.exchange.points import layout_entries, query_points
from opboost_ops.exchange.rejection import Rejected
from opboost_ops.stages.alignment import Common, Laid, Told
from opboost_ops.stages.keyed import MEMBERSHIP
from opboost_ops.stages.positions import LOOKS, ORDER, binary, numbers, order_table
from opboost_ops.stages.psi_session import Session, pair_keys, session_of
from opboost_ops.stages.stage import Context

#: Name of the table that says which row each point of the query is of.
QUERIED = "psi_query"

ASKED = (
    "row count; the points themselves tell nothing to anybody who lacks the label holder's "
    "exponent of this run"
)
LAID_OUT = (
    "row count; of its people nothing but what an answer to a query gives: no ID can be tested "
    "by anybody else, nor later"
)
ANSWERED = {
    1: "for each of the label holder's people, whether the table has them (membership)",
    2: "for each of the label holder's people, whether all parties have them (membership); not "
    "which of the parties has somebody whom another one lacks",
}


class Private:
    """`alignment: private`."""

    answers: Kind = "psi_answer"

    def lay_out(self, context: Context) -> Laid:
        """A feature holder's sorted tags, or its table of masked zero shares."""
        session = session_of(context)
        asked = oprf.with_canary(session.messages)
        points = oprf.own_points(
            session.engine, session.seed, context.federation.name, session.messages
        )
        if len(context.federation.feature_holders) == 1:
            layout, rows = matching.sorted_tags(points, asked)
            home = {ORDER: order_table(rows)}
        else:
            pairs = pair_keys(context)
            layout, looks = matching.masked_shares(points, asked, session.seed, pairs)
            order = sorting(looks)
            home = {
                LOOKS: pa.table({"look": binary(looks[order]), "row": smallest_integers(order)})
            }
        draft = Draft(
            kind="digests",
            about=context.party,
            entries=layout.content,
            document={"number": layout.number},
            rows=len(session.messages),
            answers=context.plan,
            discloses=LAID_OUT,
        )
        return Laid(draft, home)

    def find(self, context: Context) -> Common:
        """The common people, by the answers to the query.

        Raises:
            ContractError: Keys or versions of the parties differ.
            Rejected: An answer is none.
        """
        session = session_of(context)
        rows = narrow_integers(context.home.table(QUERIED), "row").astype(np.int64)
        match = _match(context, session, rows)
        if not match.agrees:
            raise ContractError(
                "Not even the message that every party adds to its own was found: keys or "
                "versions of the parties differ.",
                "Compare the release that each party runs, and encryption keys and ID column in "
                "their federation files; then trigger a new run.",
            )
        at = match.common()
        # In the order of the label holder's own digests, which no other party can make.
        place = np.empty(len(session.messages), dtype=np.int64)
        place[narrow_integers(context.home.table(ORDER), "row")] = np.arange(len(place))
        places = place[rows[at]]
        by_digest = np.argsort(places)
        at, places = at[by_digest], places[by_digest]
        digests = numbers(context.home.table("digests").column("digest"))

        def told(holder: str, order: np.ndarray) -> pa.Table:
            answer = match.answer(holder, at[order])
            if answer.ndim == 1:
                return pa.table({"position": smallest_integers(answer)})
            return pa.table({"look": binary(answer)})

        return Common(rows[at], digests[places], told)

    def disclosures(self, federation: Federation) -> Iterator[Told]:
        """What leaves, exact, with no epsilon: from whom, to whom, and what."""
        owner = federation.label_holder
        for holder in federation.feature_holders:
            yield owner, holder, ASKED
            yield holder, owner, LAID_OUT
            yield holder, owner, answered(federation)
            yield owner, holder, MEMBERSHIP

    def nobody(self) -> str:
        """What to look at where nobody is common to all."""
        return (
            "Keys and versions agree. Check that all mean the same ID column and type, and write "
            "IDs in one form (leading zeros, case)."
        )


def answered(federation: Federation) -> str:
    """What an answer tells the label holder.

    Args:
        federation: The plan's.
    """
    return ANSWERED[min(len(federation.feature_holders), 2)]


def _match(
    context: Context, session: Session, rows: np.ndarray
) -> matching.OneHolder | matching.ManyHolders:
    asked = oprf.with_canary(session.messages)
    if len(rows) != len(asked):
        raise ContractError("The query is of another table than this one.", "Trigger a new run.")
    holders = context.federation.feature_holders
    kind = matching.OneHolder if len(holders) == 1 else matching.ManyHolders
    match = kind([asked[row] for row in rows], int(np.flatnonzero(rows == len(asked) - 1)[0]))
    for holder in holders:
        laid = context.receive("digests", holder)
        answer = query_points(context.receive("psi_answer", holder))
        try:
            points = oprf.unblind(session.engine, session.seed, answer, holder)
        except ValueError:
            points = None
        if points is None:
            raise Rejected("malformed", f"The answer of {holder} holds a point of small order.")
        entries = layout_entries(laid, context.federation)
        match.add(holder, points, matching.Layout(entries, laid.document["number"]))
    return match
