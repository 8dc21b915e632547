"""Arrow: blinded points -> the same points under the feature holder's exponent."""

from collections import deque
from collections.abc import Iterator

import numpy as np

from opboost_ops.alignment import epochs, oprf
from opboost_ops.alignment.curve import POINT
from opboost_ops.alignment.engine import BLOCK
from opboost_ops.exchange.artifact import Artifact, Draft
from opboost_ops.exchange.books import open_books
from opboost_ops.exchange.rejection import Rejected
from opboost_ops.exchange.spool import Spool
from opboost_ops.privacy.asked import Counted, Question
from opboost_ops.privacy.consent import require_asked_allowed
from opboost_ops.scratch.arrays import slices
from opboost_ops.stages.private_words import answered
from opboost_ops.stages.psi_parts import Sent
from opboost_ops.stages.psi_session import session_of
from opboost_ops.stages.stage import Context, Outcome


def psi_answer(context: Context) -> Outcome:
    """Answer the label holder's query, in its order, once policy and ledger were asked.

    Raises:
        PolicyError: It asks about more people than the policy allows, in this run, in its epoch, or
            in all.
        Rejected: A point of it is none.
        ContractError: By this party's clock it is not the plan's epoch; or the disk has no room.
    """
    federation, receiver = context.federation, context.federation.label_holder
    session = session_of(context)
    query = context.receive("psi_query", context.party)
    asked = query.manifest.rows
    told = _counted(context, query)
    # What is sent, and the blocks that are kept for a retry.
    Spool(context.home.folder, context.party).require_room(2 * POINT * (asked + 1))
    made, failed = Sent(context.home.scratch, POINT, query.parts), False
    numbers: deque[int] = deque()

    def pieces() -> Iterator[np.ndarray]:
        for number in range(query.parts):
            points = query.part(number, POINT)
            for some in slices(len(points), BLOCK):
                numbers.append(number)
                yield points[some]
            del points  # Before the next part is read.

    try:
        for points in oprf.evaluate(session.engine, session.exponents, pieces(), asked + 1):
            made.add(numbers.popleft(), points)
    except ValueError:
        failed = True
    if failed:
        raise Rejected("malformed", f"The query of {receiver} holds a point of small order.")
    draft = Draft(
        kind="psi_answer",
        about=context.party,
        entries=made,
        rows=asked,
        answers=query.digest,
        discloses=f"{answered(federation)}. {told}",
    )
    return Outcome(drafts=(draft,), summary={"rows": asked})


def _counted(context: Context, query: Artifact) -> str:
    """Ask policy and ledger; what the ledger's line says of how many were asked about by now."""
    federation, receiver = context.federation, context.federation.label_holder
    rows, policy = query.manifest.rows, context.policy
    with open_books(context.site) as books:
        releases = books.ledger.releases
        if context.epoch is None:
            before = books.asked.before(releases(), receiver, federation.name, context.run)
            require_asked_allowed(policy, context.party, receiver, rows, before)
            ever = before + rows
        else:
            epoch = context.epoch
            question = Question(federation.name, receiver, epoch, query.digest, context.run)

            def require(found: Counted) -> None:
                require_asked_allowed(
                    policy, context.party, receiver, rows, found.ever, (epoch, found.epoch)
                )

            counted = books.asked.count(
                question,
                (query.part(number, POINT) for number in range(query.parts)),
                query.parts,
                releases,
                epochs.begun_by(epochs.now()) | {epoch},
                require,
            )
            ever = counted.ever
    guesses = "so many guesses of who is a customer it can have tested"
    if context.epoch is None:
        told = f"It has asked {context.party} about {ever:,} people in all, repeats included"
        return f"{told}: {guesses}"
    return (
        f"It has asked {context.party} about {counted.epoch:,} different people in "
        f"{context.epoch}, and can look each of them up in every run of that epoch; and about "
        f"{ever:,} in all, where those of an epoch count once in it: {guesses} in each run"
    )
