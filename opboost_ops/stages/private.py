"""Private alignment: an oblivious exchange by which nobody learns who else is in a table."""

from collections.abc import Iterator
from functools import partial

import numpy as np
import pyarrow as pa

from opboost_ops.alignment import matching, oprf
from opboost_ops.alignment.curve import POINT
from opboost_ops.alignment.engine import BLOCK
from opboost_ops.alignment.ids import CANARY
from opboost_ops.alignment.parts import RECORD, Spill, part_count
from opboost_ops.alignment.tags import TAG, sorting
from opboost_ops.config.federation import Federation
from opboost_ops.errors import ContractError
from opboost_ops.exchange.artifact import Artifact, Draft
from opboost_ops.exchange.encoding import narrow_integers, smallest_integers
from opboost_ops.exchange.manifest import Kind
from opboost_ops.exchange.points import layout_parts
from opboost_ops.exchange.rejection import Rejected
from opboost_ops.stages.alignment import Answer, Common, Laid, Told, common_order
from opboost_ops.stages.keyed import MEMBERSHIP
from opboost_ops.stages.positions import LOOKS, ORDER, binary, keys_of, order_table, tails
from opboost_ops.stages.private_words import answered, asked, laid_out
from opboost_ops.stages.psi_parts import LOOK, Sent, spill
from opboost_ops.stages.psi_session import Session, pair_keys, session_of
from opboost_ops.stages.stage import Context

#: Name of the table that says which row each point of the query is of.
QUERIED = "psi_query"


class Private:
    """`alignment: private`."""

    answers: Kind = "psi_answer"

    def lay_out(self, context: Context) -> Laid:
        """A feature holder's sorted tags, or its table of masked zero shares."""
        session, several = session_of(context), len(context.federation.feature_holders) > 1
        parts = part_count(session.rows + 1)
        waiting = spill(context.home, "digests", parts, RECORD)
        people = oprf.own_points(
            session.engine,
            session.exponents,
            context.federation.name,
            session.messages(),
            session.rows,
        )
        pairs = pair_keys(context) if several else {}
        looks = list(matching.deal_people(waiting, people, parts, pairs, session.salt))
        made, rows = Sent(context.home, "digests", TAG), []
        document: dict[str, list[int]] = {"keys": [], "numbers": []}
        for part in range(parts):
            layout, own = matching.layout_part(waiting, part, session.seed, several)
            made.append(layout.content)
            document["keys"].append(layout.people)
            document["numbers"].append(layout.number)
            rows.append(own)
        if several:
            # The last is the canary's, which is nobody's.
            found = np.concatenate(looks)[:-1]
            order = sorting(found)
            table = {"look": binary(found[order]), "row": smallest_integers(order)}
            home = {LOOKS: pa.table(table)}
        else:
            home = {ORDER: order_table(np.concatenate(rows))}
        draft = Draft(
            kind="digests",
            about=context.party,
            entries=made,
            document=document,
            rows=session.rows,
            answers=context.plan,
            discloses=laid_out(context.federation),
        )
        return Laid(draft, home)

    def find(self, context: Context) -> Common:
        """The common people, by the answers to the query.

        Raises:
            ContractError: Keys or versions of the parties differ.
            Rejected: An answer is none.
        """
        session = session_of(context)
        rows = narrow_integers(context.home.table(QUERIED), "row")
        match, looks = _match(context, session, rows)
        if not match.agrees:
            raise ContractError(
                "Not even the message that every party adds to its own was found: keys or "
                "versions of the parties differ.",
                "Compare the release that each party runs, and encryption keys and ID column in "
                "their federation files; then trigger a new run.",
            )
        at = match.common()
        # In the order of the label holder's own digests, which no other party can make.
        place = np.empty(session.rows, dtype=np.int64)
        place[narrow_integers(context.home.table(ORDER), "row")] = np.arange(len(place))
        places = place[rows[at]]
        by_digest = np.argsort(places)
        at, places = at[by_digest], places[by_digest]
        digests = keys_of(context.home.table("digests").column("digest"))

        def of_common() -> Iterator[np.ndarray]:
            for begin in range(0, len(places), BLOCK):
                yield tails(digests[places[begin : begin + BLOCK]])

        def told(holder: str, held: np.ndarray) -> Answer:
            wanted = at[common_order(held)]
            if holder in looks:
                return Answer(pa.table({"look": binary(looks[holder].take(0)[wanted])}))
            found = match.positions(wanted, people=context.federation.has_decoys)
            return Answer(pa.table({"position": smallest_integers(found)}))

        return Common(rows[at], of_common, told)

    def disclosures(self, federation: Federation) -> Iterator[Told]:
        """What leaves, exact, with no epsilon: from whom, to whom, and what."""
        owner = federation.label_holder
        for holder in federation.feature_holders:
            yield owner, holder, asked(federation)
            yield holder, owner, laid_out(federation)
            yield holder, owner, answered(federation)
            if not federation.has_decoys:
                yield owner, holder, MEMBERSHIP

    def nobody(self) -> str:
        """What to look at where nobody is common to all."""
        return (
            "Keys and versions agree. Check that all mean the same ID column and type, and write "
            "IDs in one form (leading zeros, case)."
        )


def _match(
    context: Context, session: Session, rows: np.ndarray
) -> tuple[matching.Match, dict[str, Spill]]:
    asked = pa.chunked_array(
        [pa.array(block, pa.large_binary()) for block in session.messages()]
        + [pa.array([CANARY], pa.large_binary())]
    )
    if len(rows) != len(asked):
        raise ContractError("The query is of another table than this one.", "Trigger a new run.")
    holders = context.federation.feature_holders
    sizes: list[int] = context.home.json(QUERIED)["parts"]
    canary = int(np.flatnonzero(rows == len(asked) - 1)[0])
    match, looks = matching.Match(len(rows), canary, len(holders) > 1, session.salt), {}
    for holder in holders:
        laid = context.receive("digests", holder)
        answer = context.receive("psi_answer", holder)
        waiting = spill(context.home, f"match-{holder}", laid.parts, RECORD)
        tags = spill(context.home, f"looks-{holder}", laid.parts, LOOK)
        people = _people(session, rows, asked, sizes, answer, holder)
        for found in match.add(people, range(laid.parts), partial(_layout, laid), waiting):
            looks[holder] = tags
            tags.add(0, found)
    return match, looks


def _layout(laid: Artifact, part: int) -> matching.Layout:
    people, number = layout_parts(laid)[part]
    return matching.Layout(laid.part(part, TAG), number, people)


def _people(
    session: Session,
    rows: np.ndarray,
    asked: pa.ChunkedArray,
    sizes: list[int],
    answer: Artifact,
    holder: str,
) -> Iterator[tuple[list[bytes], np.ndarray]]:
    """Messages and unblinded points, in the order of the query, a block at a time."""

    def parts() -> Iterator[np.ndarray]:
        for number, size in enumerate(sizes):
            points = answer.part(number, POINT)
            if len(points) != size:
                raise Rejected(
                    "wrong_row_count", f"The answer of {holder} has other parts than the query."
                )
            yield points

    row, failed = 0, False
    try:
        for points in oprf.unblind(session.engine, session.exponents, parts(), len(rows), holder):
            for at in range(0, len(points), BLOCK):
                some = points[at : at + BLOCK]
                yield asked.take(pa.array(rows[row : row + len(some)])).to_pylist(), some
                row += len(some)
    except ValueError:
        failed = True
    if failed:
        raise Rejected("malformed", f"The answer of {holder} holds a point of small order.")
