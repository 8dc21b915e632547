"""Alignment by keyed digests: the label holder compares digests under a key that all share."""

from collections.abc import Iterator

import numpy as np

from opboost_ops.alignment import short_digests
from opboost_ops.alignment.parts import spans
from opboost_ops.config.federation import Federation
from opboost_ops.exchange.artifact import Draft
from opboost_ops.exchange.encoding import narrow_integers
from opboost_ops.exchange.manifest import Kind
from opboost_ops.exchange.part_sizes import digest_parts
from opboost_ops.exchange.points import digest_entries
from opboost_ops.mechanisms import noise
from opboost_ops.stages.alignment import Answer, Common, Laid, Told
from opboost_ops.stages.positions import ORDER, keys_of, order_table, rising, tails
from opboost_ops.stages.psi_session import changed
from opboost_ops.stages.raw_blocks import blocks
from opboost_ops.stages.stage import Context

DISCLOSES = (
    "row count, and 80 bits of a keyed digest of every ID, in rising order: whoever holds the "
    "federation's alignment key can test guessed IDs against them"
)
MEMBERSHIP = "which of its rows all parties have (membership), and which of them are held out"

#: Rows at a time.
_BLOCK = 131_072


class Keyed:
    """`alignment: keyed`."""

    answers: Kind = "digests"

    def lay_out(self, context: Context) -> Laid:
        """A feature holder's digests in rising order: no order of the table leaves."""
        digests = keyed_ids(context, context.alignment_key())
        order = rising(digests)
        digests = digests[order]
        short_digests.require_distinct(digests, context.party)
        short = np.ascontiguousarray(digests[:, : short_digests.SHORT])
        draft = Draft(
            kind="digests",
            about=context.party,
            entries=[short[begin:end] for begin, end in spans(digest_parts(len(short)))],
            rows=len(order),
            answers=context.plan,
            discloses=DISCLOSES,
        )
        return Laid(draft, {ORDER: order_table(order)})

    def find(self, context: Context) -> Common:
        """The common people, by their digests.

        Raises:
            ContractError: Two digests of the own table agree.
        """
        own = keys_of(context.home.table("digests").column("digest"))
        for begin in range(0, len(own), _BLOCK):
            # With the next block's first.
            short_digests.require_distinct(own[begin : begin + _BLOCK + 1], context.party)
            context.home.let_go()
        artifacts = {h: context.receive("digests", h) for h in context.federation.feature_holders}

        def places(holder: str) -> Iterator[tuple[int, np.ndarray]]:
            for found in short_digests.places_in(digest_entries(artifacts[holder]), own):
                yield found
                context.home.let_go()

        common = np.ones(len(own), dtype=bool)
        for holder in artifacts:
            seen = np.zeros(len(own), dtype=bool)
            for begin, at in places(holder):
                seen[begin : begin + len(at)] = at >= 0
            common &= seen

        def told(holder: str, held: np.ndarray) -> Answer:
            marked = np.zeros(artifacts[holder].manifest.rows, dtype=bool)
            for begin, at in places(holder):
                marked[at[common[begin : begin + len(at)]]] = True
            return Answer(entries=short_digests.marks(marked, held))

        def of_common() -> Iterator[np.ndarray]:
            for begin in range(0, len(own), _BLOCK):
                yield tails(own[begin : begin + _BLOCK][common[begin : begin + _BLOCK]])
                context.home.let_go()

        # From here on the label holder's own places are rows of its table.
        rows = np.asarray(narrow_integers(context.home.table(ORDER), "row")[common])
        context.home.let_go()
        return Common(rows, of_common, told)

    def disclosures(self, federation: Federation) -> Iterator[Told]:
        """What leaves, exact, with no epsilon: from whom, to whom, and what."""
        owner = federation.label_holder
        for holder in federation.feature_holders:
            yield holder, owner, DISCLOSES
            yield owner, holder, MEMBERSHIP

    def nobody(self) -> str:
        """What to look at where nobody is common to all."""
        return "Check that all mean the same ID column, type and alignment key."


def keyed_ids(context: Context, secret: bytes) -> np.ndarray:
    """A key of each person of the party's table, uint8, shape (n, 16).

    Args:
        context: The party's.
        secret: Under which.

    Raises:
        ContractError: The table was rewritten since it was checked.
    """
    identity = context.federation.id
    keys, end = np.empty((context.home.json("table")["rows"], 16), dtype=np.uint8), 0
    for block in blocks(context, [identity.column]):
        begin, end = end, end + block.height
        if end > len(keys):
            raise changed(context)
        ids = block.get_column(identity.column).to_arrow()
        keys[begin:end] = noise.person_keys(secret, ids, identity.type)
    if end != len(keys):
        raise changed(context)
    return keys
