"""Of how many files the party's table is; where the rows of each begin stays home."""

from collections.abc import Mapping
from itertools import accumulate
from typing import Any

import numpy as np
import pyarrow as pa

from opboost_ops.errors import ContractError
from opboost_ops.exchange.encoding import smallest_integers
from opboost_ops.stages import raw_table
from opboost_ops.stages.digest_ids import changed
from opboost_ops.stages.least_common import too_few
from opboost_ops.stages.raw_blocks import blocks
from opboost_ops.stages.released import released
from opboost_ops.stages.stage import SHARDS, Context, Outcome

#: Most files of a table: each is a task, and the list of them is to stay short.
MOST = 256

DISCLOSES = "of how many files the party's table is"


def list_shards(context: Context) -> Outcome:
    """Count files and their rows, so that each file can be treated by itself.

    In horizontal learning all rows of a file are its own task's. Elsewhere, which rows are released
    is found out here, once, and they are dealt to the files: whoever treats one of them needs
    nothing that is as long as the whole table but the person keys, which are mapped.

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
    digests = [raw_table.fingerprint(context, shard) for shard in range(count)]
    if context.federation.learning == "horizontal":
        return _listed(digests)
    identity = [context.federation.id.column]
    heights = [
        sum(block.height for block in blocks(context, identity, shard=shard))
        for shard in range(count)
    ]
    wanted = released(context)
    few = too_few(context, wanted.count)
    if few is not None:
        return few
    # Where the rows of each begin, and after the last one the end; without forgotten persons.
    offsets = [0, *accumulate(heights)]
    if context.home.table("person_keys").num_rows != offsets[-1]:
        raise changed(context)
    positions = wanted.rows()
    shards = {
        "train": wanted.train,
        "offsets": offsets,
    }
    return _listed(digests, shards, _dealt(positions, offsets))


def _listed(
    digests: list[str],
    facts: Mapping[str, Any] | None = None,
    tables: Mapping[str, pa.Table] | None = None,
) -> Outcome:
    return Outcome(
        tables=tables or {},
        documents={SHARDS: {**(facts or {}), "sha256": digests}},
        summary={"shards": len(digests)},
        discloses=DISCLOSES,
    )


def _dealt(positions: np.ndarray, offsets: list[int]) -> dict[str, pa.Table]:
    """For each file the rows to release that lie in it, and their places in the release."""
    found = np.searchsorted(offsets[1:], positions, side="right").astype(np.uint16)
    order = np.argsort(found, kind="stable")
    ends = np.searchsorted(found[order], np.arange(len(offsets)))
    tables = {}
    for shard in range(len(offsets) - 1):
        places = order[ends[shard] : ends[shard + 1]]
        columns = {"position": positions[places], "place": places}
        tables[f"positions-{shard}"] = pa.table(
            {name: smallest_integers(values) for name, values in columns.items()}
        )
    return tables
