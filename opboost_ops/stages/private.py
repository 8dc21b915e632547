"""Private alignment: an oblivious exchange by which nobody learns who else is in a table."""

from collections.abc import Iterator, Mapping
from functools import partial

import numpy as np
import pyarrow as pa

from opboost_ops.alignment import matching, oprf
from opboost_ops.alignment.curve import POINT
from opboost_ops.alignment.engine import BLOCK
from opboost_ops.alignment.ids import CANARY
from opboost_ops.alignment.parts import part_count, record
from opboost_ops.alignment.tags import TAG
from opboost_ops.config.federation import Federation
from opboost_ops.errors import ContractError
from opboost_ops.exchange.artifact import Artifact, Draft
from opboost_ops.exchange.encoding import narrow_integers, smallest_integers
from opboost_ops.exchange.manifest import Kind
from opboost_ops.exchange.points import layout_parts
from opboost_ops.exchange.rejection import Rejected
from opboost_ops.scratch.arrays import Scratch, let_go, slices
from opboost_ops.scratch.parts import gathered, scattered
from opboost_ops.stages.alignment import Answer, Common, Laid, Told, in_common_order
from opboost_ops.stages.keyed import MEMBERSHIP
from opboost_ops.stages.positions import (
    LOOKS,
    ORDER,
    binary,
    keys_of,
    order_table,
    rising_keys,
    tails,
)
from opboost_ops.stages.private_words import answered, asked, laid_out
from opboost_ops.stages.psi_parts import Sent
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
        scratch, count = context.home.scratch, session.rows + 1
        people = oprf.own_points(
            session.engine,
            session.exponents,
            context.federation.name,
            session.messages(),
            session.rows,
        )
        pairs = pair_keys(context) if several else {}
        looks = scratch.zeros(count, ("u1", (TAG,))) if several else None
        made = Sent(scratch, TAG, part_count(count))
        document: dict[str, list[int]] = {"keys": [], "numbers": []}
        rows, end = scratch.zeros(count, np.min_scalar_type(session.rows)), 0
        for layout, own in matching.layouts(
            scratch, people, count, session.seed, pairs, session.salt, looks
        ):
            made.add(len(document["keys"]), layout.content)
            document["keys"].append(layout.people)
            document["numbers"].append(layout.number)
            begin, end = end, end + len(own)
            rows[begin:end] = own
            let_go()
        home = {ORDER: order_table(rows, scratch)}
        if looks is not None:
            # The last is the canary's, which is nobody's.
            home = {LOOKS: _look_order(scratch, looks[:-1])}
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
        session, scratch = session_of(context), context.home.scratch
        match, looks = _match(context, session)
        if not match.agrees:
            raise ContractError(
                "Not even the message that every party adds to its own was found: keys or "
                "versions of the parties differ.",
                "Compare the release that each party runs, and encryption keys and ID column in "
                "their federation files; then trigger a new run.",
            )
        # In the order of the label holder's own digests, which no other party can make.
        listed = narrow_integers(context.home.table(ORDER), "row")
        common = gathered(scratch, match.common(), listed)
        count = sum(int(common[some].sum()) for some in slices(len(common)))
        rows, end = scratch.zeros(count, listed.dtype), 0
        for some in slices(len(common)):
            found = listed[some][common[some]]
            begin, end = end, end + len(found)
            rows[begin:end] = found
            let_go()

        def of_common() -> Iterator[np.ndarray]:
            digests = keys_of(context.home.table("digests").column("digest"))
            for some in slices(len(common)):
                yield tails(digests[some][common[some]])
                let_go()

        def told(holder: str, held: np.ndarray) -> Answer:
            train = sum(int((~held[some]).sum()) for some in slices(len(held)))
            wanted = in_common_order(scratch, rows, held, train)
            if holder in looks:
                found = gathered(scratch, looks[holder], wanted)
                return Answer(pa.table({"look": binary(found)}))
            at = match.positions(wanted, people=context.federation.has_decoys)
            return Answer(pa.table({"position": smallest_integers(at, scratch)}))

        return Common(rows, of_common, told)

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


def _look_order(scratch: Scratch, looks: np.ndarray) -> pa.Table:
    """Look-up tags in the order of their bytes, and which row each is of."""
    kind = record(len(looks))

    def records() -> Iterator[np.ndarray]:
        for rows in slices(len(looks)):
            made = np.empty(rows.stop - rows.start, dtype=kind)
            made["key"], made["row"] = looks[rows], np.arange(rows.start, rows.stop)
            yield made
            let_go()

    keys, rows = rising_keys(scratch, records(), len(looks))
    return pa.table({"look": binary(keys), "row": smallest_integers(rows, scratch)})


def _match(context: Context, session: Session) -> tuple[matching.Match, dict[str, np.ndarray]]:
    """What is found at all feature holders, and the look-up tags of all rows at each."""
    holders, count = context.federation.feature_holders, session.rows + 1
    match = matching.Match(context.home.scratch, count, len(holders) > 1, session.salt)
    looks: dict[str, np.ndarray] = {}
    for holder in holders:
        laid = context.receive("digests", holder)
        answer = context.receive("psi_answer", holder)
        people = _people(context, session, answer, holder)
        sizes = [size for size, _ in layout_parts(laid)]
        found = match.add(people, sizes, partial(_layout, laid))
        if found is not None:
            looks[holder] = found
    return match, looks


def _layout(laid: Artifact, part: int) -> matching.Layout:
    people, number = layout_parts(laid)[part]
    return matching.Layout(laid.part(part, TAG), number, people)


def _people(
    context: Context, session: Session, answer: Artifact, holder: str
) -> Iterator[tuple[list[bytes], np.ndarray]]:
    """Messages and unblinded points of all rows, in the order of the table; the canary's last."""
    scratch, count = context.home.scratch, session.rows + 1
    unblinded = _unblinded(context, session, answer, holder)
    points = scattered(scratch, unblinded, count, {"": ("u1", (POINT,))})[""]
    end = 0
    for messages in session.messages():
        begin, end = end, end + len(messages)
        yield messages, points[begin:end]
    yield [CANARY], points[end:]


def _unblinded(
    context: Context, session: Session, answer: Artifact, holder: str
) -> Iterator[tuple[np.ndarray, Mapping[str, np.ndarray]]]:
    """Rows, and their unblinded points, in the order of the query."""
    rows = narrow_integers(context.home.table(QUERIED), "row")
    if len(rows) != session.rows + 1:
        raise ContractError("The query is of another table than this one.", "Trigger a new run.")
    sizes: list[int] = context.home.json(QUERIED)["parts"]

    def pieces() -> Iterator[np.ndarray]:
        for number, size in enumerate(sizes):
            points = answer.part(number, POINT)
            if len(points) != size:
                raise Rejected(
                    "wrong_row_count", f"The answer of {holder} has other parts than the query."
                )
            for some in slices(size, BLOCK):
                yield points[some]
            del points  # Before the next part is read.

    end, failed = 0, False
    try:
        found = oprf.unblind(session.engine, session.exponents, pieces(), len(rows), holder)
        for points in found:
            begin, end = end, end + len(points)
            yield rows[begin:end], {"": points}
    except ValueError:
        failed = True
    if failed:
        raise Rejected("malformed", f"The answer of {holder} holds a point of small order.")
