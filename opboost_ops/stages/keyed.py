"""Alignment by keyed digests: the label holder compares digests under a key that all share."""

from collections.abc import Iterator

import numpy as np

from opboost_ops.alignment import short_digests
from opboost_ops.alignment.parts import record, spans
from opboost_ops.config.federation import Federation
from opboost_ops.exchange.artifact import Draft
from opboost_ops.exchange.encoding import narrow_integers
from opboost_ops.exchange.manifest import Kind
from opboost_ops.exchange.part_sizes import digest_parts
from opboost_ops.exchange.points import digest_entries
from opboost_ops.mechanisms import noise
from opboost_ops.scratch.arrays import let_go, slices
from opboost_ops.stages.alignment import Answer, Common, Laid, Told
from opboost_ops.stages.positions import ORDER, keys_of, order_table, rising, rising_keys, tails
from opboost_ops.stages.psi_session import changed
from opboost_ops.stages.raw_blocks import blocks
from opboost_ops.stages.stage import Context

DISCLOSES = (
    "row count, and 80 bits of a keyed digest of every ID, in rising order: whoever holds the "
    "federation's alignment key can test guessed IDs against them"
)
MEMBERSHIP = "which of its rows all parties have (membership), and which of them are held out"


class Keyed:
    """`alignment: keyed`."""

    answers: Kind = "digests"

    def lay_out(self, context: Context) -> Laid:
        """A feature holder's digests in rising order: no order of the table leaves."""
        scratch = context.home.scratch
        digests, order = rising_ids(context, context.alignment_key())
        _require_distinct(context, digests)
        short = scratch.zeros(len(digests), ("u1", (short_digests.SHORT,)))
        for rows in slices(len(digests)):
            short[rows] = digests[rows, : short_digests.SHORT]
            let_go()
        draft = Draft(
            kind="digests",
            about=context.party,
            entries=[short[begin:end] for begin, end in spans(digest_parts(len(short)))],
            rows=len(order),
            answers=context.plan,
            discloses=DISCLOSES,
        )
        return Laid(draft, {ORDER: order_table(order, scratch)})

    def find(self, context: Context) -> Common:
        """The common people, by their digests.

        Raises:
            ContractError: Two digests of the own table agree.
        """
        own = keys_of(context.home.table("digests").column("digest"))
        _require_distinct(context, own)
        scratch = context.home.scratch
        artifacts = {h: context.receive("digests", h) for h in context.federation.feature_holders}

        def places(holder: str) -> Iterator[tuple[int, np.ndarray]]:
            for found in short_digests.places_in(digest_entries(artifacts[holder]), own):
                yield found
                let_go()

        # How many of the others have a person.
        having = scratch.zeros(len(own), np.min_scalar_type(len(artifacts)))
        for holder in artifacts:
            for begin, at in places(holder):
                having[begin : begin + len(at)] += at >= 0

        def common() -> Iterator[tuple[slice, np.ndarray]]:
            for rows in slices(len(own)):
                yield rows, having[rows] == len(artifacts)
                let_go()

        count = sum(int(found.sum()) for _, found in common())

        def told(holder: str, held: np.ndarray) -> Answer:
            marked = scratch.zeros(artifacts[holder].manifest.rows, bool)
            for begin, at in places(holder):
                marked[at[having[begin : begin + len(at)] == len(artifacts)]] = True
            return Answer(entries=short_digests.marks(marked, held))

        def of_common() -> Iterator[np.ndarray]:
            for rows, found in common():
                yield tails(own[rows][found])

        # From here on the label holder's own places are rows of its table.
        listed = narrow_integers(context.home.table(ORDER), "row")
        own_rows, end = scratch.zeros(count, listed.dtype), 0
        for rows, found in common():
            some = listed[rows][found]
            begin, end = end, end + len(some)
            own_rows[begin:end] = some
        return Common(own_rows, of_common, told)

    def disclosures(self, federation: Federation) -> Iterator[Told]:
        """What leaves, exact, with no epsilon: from whom, to whom, and what."""
        owner = federation.label_holder
        for holder in federation.feature_holders:
            yield holder, owner, DISCLOSES
            yield owner, holder, MEMBERSHIP

    def nobody(self) -> str:
        """What to look at where nobody is common to all."""
        return "Check that all mean the same ID column, type and alignment key."


def _require_distinct(context: Context, digests: np.ndarray) -> None:
    for rows in slices(len(digests)):
        # With the next block's first.
        short_digests.require_distinct(digests[rows.start : rows.stop + 1], context.party)
        let_go()


def rising_ids(context: Context, secret: bytes) -> tuple[np.ndarray, np.ndarray]:
    """A key of each person of the party's table in rising order, and which row it is of.

    Args:
        context: The party's.
        secret: Under which.

    Returns:
        uint8, shape (n, 16), and integers, shape (n,).

    Raises:
        ContractError: The table was rewritten since it was checked.
    """
    scratch, count = context.home.scratch, context.home.json("table")["rows"]
    if scratch.holds(count):
        keys = keyed_ids(context, secret)
        order = rising(keys)
        return keys[order], order
    kind = record(count)

    def pieces() -> Iterator[np.ndarray]:
        for begin, keys in _id_blocks(context, secret):
            piece = np.empty(len(keys), dtype=kind)
            piece["key"], piece["row"] = keys, np.arange(begin, begin + len(keys))
            yield piece

    return rising_keys(scratch, pieces(), count)


def keyed_ids(context: Context, secret: bytes) -> np.ndarray:
    """A key of each person of the party's table, uint8, shape (n, 16).

    Args:
        context: The party's.
        secret: Under which.

    Raises:
        ContractError: The table was rewritten since it was checked.
    """
    scratch = context.home.scratch
    whole = scratch.zeros(context.home.json("table")["rows"], ("u1", (16,)))
    for begin, keys in _id_blocks(context, secret):
        whole[begin : begin + len(keys)] = keys
        let_go()
    return whole


def _id_blocks(context: Context, secret: bytes) -> Iterator[tuple[int, np.ndarray]]:
    """Where a block of the table begins, and the keys of its persons."""
    identity, rows = context.federation.id, context.home.json("table")["rows"]
    end = 0
    for block in blocks(context, [identity.column]):
        begin, end = end, end + block.height
        if end > rows:
            raise changed(context)
        ids = block.get_column(identity.column).to_arrow()
        yield begin, noise.person_keys(secret, ids, identity.type)
    if end != rows:
        raise changed(context)
