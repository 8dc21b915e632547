"""Of how many files the party's table is; where the rows of each begin stays home."""

from itertools import accumulate

from opboost_ops.errors import ContractError
from opboost_ops.stages import raw_table
from opboost_ops.stages.digest_ids import changed
from opboost_ops.stages.preprocess import aligned_rows
from opboost_ops.stages.raw_blocks import blocks
from opboost_ops.stages.stage import SHARDS, Context, Outcome

#: Most files of a table: each is a task, and the list of them is to stay short.
MOST = 256

DISCLOSES = "of how many files the party's table is"


def list_shards(context: Context) -> Outcome:
    """Count files and their rows, so that each file can be treated by itself.

    The alignment is accepted here, once: tasks of single files run side by side, and what they
    accept they have accepted before.

    Raises:
        ContractError: The table was rewritten, the alignment does not fit it, or it has too many
            files.
    """
    if raw_table.fingerprint(context) != context.home.json("table")["sha256"]:
        raise changed(context)
    count = len(raw_table.files(context))
    if count > MOST:
        raise ContractError(
            f"The table of {context.party} has more than {MOST} files.",
            "Write fewer and larger ones, or take shards out of the federation file.",
        )
    identity = [context.federation.id.column]
    heights = [
        sum(block.height for block in blocks(context, identity, shard=shard))
        for shard in range(count)
    ]
    alignment = context.receive("alignment", context.party)
    aligned_rows(alignment, sum(heights))
    shards = {
        "train": alignment.document["train"],
        # Where the rows of each begin, and after the last one the end; without forgotten persons.
        "offsets": [0, *accumulate(heights)],
        "sha256": [raw_table.fingerprint(context, shard) for shard in range(count)],
    }
    return Outcome(documents={SHARDS: shards}, summary={"shards": count}, discloses=DISCLOSES)
