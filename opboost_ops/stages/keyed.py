"""Alignment by keyed digests: the label holder compares digests under a key that all share."""

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from opboost_ops.alignment import short_digests
from opboost_ops.alignment.parts import spans
from opboost_ops.alignment.short_digests import shortened
from opboost_ops.config.federation import Federation
from opboost_ops.exchange.artifact import Draft
from opboost_ops.exchange.manifest import Kind
from opboost_ops.exchange.part_sizes import digest_parts
from opboost_ops.exchange.points import digest_entries
from opboost_ops.mechanisms import noise
from opboost_ops.stages.alignment import Answer, Common, Laid, Told
from opboost_ops.stages.positions import ORDER, keys_of, numbers, order_table, own_rows, rising
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
        digests = keyed_ids(context, context.alignment_key())
        order = rising(digests)
        short = shortened(digests[order], context.party)
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
        listed = context.home.table("digests").column("digest")
        own = shortened(keys_of(listed), context.party)
        rows: dict[str, int] = {}
        places: dict[str, np.ndarray] = {}
        common = np.ones(len(own), dtype=bool)
        for holder in context.federation.feature_holders:
            artifact = context.receive("digests", holder)
            at = short_digests.places_in(digest_entries(artifact), own)
            common &= at >= 0
            rows[holder], places[holder] = artifact.manifest.rows, at
        found = np.flatnonzero(common)

        def told(holder: str, held: np.ndarray) -> Answer:
            marked = np.zeros(rows[holder], dtype=bool)
            marked[places[holder][found]] = True
            return Answer(entries=short_digests.marks(marked, held))

        # From here on the label holder's own places are rows of its table.
        return Common(own_rows(context, found), numbers(listed.take(pa.array(found))), told)

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
    """
    identity = context.federation.id
    parts = [
        noise.person_keys(secret, block.get_column(identity.column).to_arrow(), identity.type)
        for block in blocks(context, [identity.column])
    ]
    return np.concatenate(parts)
