"""Arrow: blinded points -> the same points under the feature holder's exponent."""

from opboost_ops.alignment import oprf
from opboost_ops.alignment.curve import POINT
from opboost_ops.exchange.artifact import Draft
from opboost_ops.exchange.books import open_books
from opboost_ops.exchange.rejection import Rejected
from opboost_ops.privacy.consent import require_asked_allowed
from opboost_ops.stages.private import answered
from opboost_ops.stages.psi_parts import Sent
from opboost_ops.stages.psi_session import session_of
from opboost_ops.stages.stage import Context, Outcome


def psi_answer(context: Context) -> Outcome:
    """Answer the label holder's query, in its order, once policy and ledger were asked.

    Raises:
        PolicyError: It asks about more people than the policy allows, in this run or in all.
        Rejected: A point of it is none.
    """
    federation, receiver = context.federation, context.federation.label_holder
    query = context.receive("psi_query", context.party)
    asked = query.manifest.rows
    before = _asked_before(context, receiver)
    require_asked_allowed(context.policy, context.party, receiver, asked, before)
    session = session_of(context)
    parts = (query.part(number, POINT) for number in range(query.parts))
    made, failed = Sent(context.home, "answer", POINT), False
    try:
        for points in oprf.evaluate(session.engine, session.seed, parts, asked + 1):
            made.append(points)
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
        discloses=f"{answered(federation)}. It has asked {context.party} about {before + asked:,} "
        "people in all, repeats included: so many guesses of who is a customer it can have tested",
    )
    return Outcome(drafts=(draft,), summary={"rows": asked})


def _asked_before(context: Context, receiver: str) -> int:
    """About how many people a party has asked in other runs, by the ledger."""
    here = (context.federation.name, context.run)
    with open_books(context.site) as books:
        return sum(
            release.rows
            for release in books.ledger.releases()
            if release.kind == "psi_answer"
            and release.receiver == receiver
            and (release.federation, release.run) != here
        )
