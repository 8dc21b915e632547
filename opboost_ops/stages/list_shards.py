"""Of how many files the party's table is; where the rows of each begin stays home."""

from collections.abc import Mapping
from itertools import accumulate
from typing import Any

from opboost_ops.errors import ContractError
from opboost_ops.stages import raw_table
from opboost_ops.stages.psi_session import changed
from opboost_ops.stages.raw_blocks import blocks
from opboost_ops.stages.stage import SHARDS, Context, Outcome

#: Most files of a table: each is a task, and the list of them is to stay short.
MOST = 256

DISCLOSES = "of how many files the party's table is"


def list_shards(context: Context) -> Outcome:
    """Count files and their rows, so that each file can be treated by itself.

    A task that treats a file needs nothing that is as long as the whole table but the person keys,
    which are mapped.

    Raises:
        ContractError: The table was rewritten, or it has too many files.
    """
    if raw_table.fingerprint(context) != context.home.json("table")["sha256"]:
        raise changed(context)
    count = len(raw_table.files(context))
    if count > MOST:
        raise ContractError(
            f"The table of {context.party} has more than {MOST} files.",
            "Write fewer and larger ones, or take shards out of the federation file.",
        )
    digests = [raw_table.fingerprint(context, shard) for shard in range(count)]
    if context.federation.learning == "horizontal":
        return _listed(digests)
    identity = [context.federation.id.column]
    heights = [
        sum(block.height for block in blocks(context, identity, shard=shard))
        for shard in range(count)
    ]
    # Where the rows of each begin, and after the last one the end; without forgotten persons.
    offsets = [0, *accumulate(heights)]
    if context.home.table("person_keys").num_rows != offsets[-1]:
        raise changed(context)
    return _listed(digests, {"offsets": offsets})


def _listed(
    digests: list[str],
    facts: Mapping[str, Any] | None = None,
) -> Outcome:
    return Outcome(
        documents={SHARDS: {**(facts or {}), "sha256": digests}},
        summary={"shards": len(digests)},
        discloses=DISCLOSES,
    )
