"""Step: blinded points -> the same points under the feature holder's exponent."""

from collections import deque
from collections.abc import Iterator

import numpy as np

from opboost_ops.exchange.artifact import Artifact, Draft
from opboost_ops.exchange.kinds import disclosure
from opboost_ops.exchange.party_state import open_state
from opboost_ops.exchange.rejection import Rejected
from opboost_ops.exchange.sealed import month_keys, oprf
from opboost_ops.exchange.sealed.curve import POINT
from opboost_ops.exchange.sealed.engine import BLOCK
from opboost_ops.exchange.sealed.parts import PartFile
from opboost_ops.exchange.store.places import require_room
from opboost_ops.pipeline.matching import session_of
from opboost_ops.pipeline.stage import Context, Outcome
from opboost_ops.privacy.consent.compliance import require_consent, require_queries_allowed
from opboost_ops.privacy.ledger.query_counts import Query, QueryCount
from opboost_ops.tables.spill.arrays import slices


def psi_answer(context: Context) -> Outcome:
    """Answer the label holder's query in its order, after checks against policy and ledger.

    Raises:
        PolicyError: It queries more people than the policy allows per run, month or in total.
        Rejected: It contains an invalid point.
        ContractError: By this party's clock it is not the plan's month, or the disk is full.
    """
    federation, receiver = context.federation, context.federation.label_holder
    session = session_of(context)
    query = context.receive("psi_query", context.party)
    count = query.manifest.rows
    require_consent(context.policy, federation, context.party)
    count_words = _counted(context, query)
    # Space for the answer, and for the blocks that are stored for a retry.
    require_room(context.home.folder, context.party, 2 * POINT * (count + 1))
    sent, failed = PartFile(context.home.scratch, POINT, query.parts), False
    numbers: deque[int] = deque()

    def pieces() -> Iterator[np.ndarray]:
        for number in range(query.parts):
            points = query.part(number, POINT)
            for some in slices(len(points), BLOCK):
                numbers.append(number)
                yield points[some]
            del points  # Free memory before the next part is read.

    try:
        for points in oprf.evaluate(session.engine, session.exponent, pieces(), count + 1):
            sent.add(numbers.popleft(), points)
    except ValueError:
        failed = True
    if failed:
        raise Rejected("malformed", f"The query of {receiver} holds a point of small order.")
    session.forget_blocks()
    draft = Draft(
        kind="psi_answer",
        about=context.party,
        entries=sent,
        rows=count,
        answers=query.digest,
        discloses=f"{disclosure('psi_answer', federation)}. {count_words}",
    )
    return Outcome(drafts=(draft,), summary={"rows": count})


def _counted(context: Context, query: Artifact) -> str:
    """Count the query, refuse it beyond the policy's caps; return the counts for the ledger."""
    federation, receiver = context.federation, context.federation.label_holder
    month = context.acceptance.plan.epoch
    assert month is not None

    def require(queries: QueryCount) -> None:
        require_queries_allowed(
            context.policy, context.party, receiver, month, queries.epoch, queries.ever
        )

    with open_state(context.site) as state:
        counted_query = Query(federation.name, receiver, month, query.digest, context.run)
        # Before any of its points is read.
        require(state.query_counts.at_least(counted_query, query.manifest.rows))
        counted = state.query_counts.count(
            counted_query,
            (query.part(number, POINT) for number in range(query.parts)),
            query.parts,
            month_keys.possible_epochs(month_keys.now()) | {month},
            require,
        )
    return (
        f"Over all its federations it has queried about {counted.epoch:,} different people in "
        f"{month}, and about {counted.ever:,} in all months, those of one month counted once; each "
        "query can be a guess of who is a customer"
    )
