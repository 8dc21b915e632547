"""Arrow: IDs -> person keys, which stay home, and keyed alignment digests."""

import numpy as np
import pyarrow as pa

from opboost_ops.errors import ContractError
from opboost_ops.exchange.artifact import Draft
from opboost_ops.mechanisms import noise
from opboost_ops.stages import raw_table
from opboost_ops.stages.stage import Context, Outcome

DISCLOSES = (
    "row count, and a keyed digest of every ID: whoever holds the federation's alignment key "
    "can test guessed IDs against them"
)


def digest_ids(context: Context) -> Outcome:
    """Digest the IDs of the party's table.

    Raises:
        ContractError: The table is not the one that was checked.
    """
    checked = context.home.json("table")
    if raw_table.fingerprint(context) != checked["sha256"]:
        raise changed(context)
    column = context.federation.id.column
    ids = raw_table.read(context, [column]).get_column(column).to_arrow()
    id_type = context.federation.id.type
    digests = binary(noise.person_keys(context.alignment_key(), ids, id_type))
    tables = {"digests": pa.table({"digest": digests})}
    if context.party == context.federation.label_holder:
        return Outcome(tables=tables, summary={"rows": len(ids)})
    tables["person_keys"] = pa.table(
        {"key": binary(noise.person_keys(context.noise_secret(), ids, id_type))}
    )
    draft = Draft(
        kind="digests",
        about=context.party,
        table=tables["digests"],
        rows=len(ids),
        answers=context.plan,
        discloses=DISCLOSES,
    )
    return Outcome(tables=tables, drafts=(draft,), summary={"rows": len(ids)})


def binary(keys: np.ndarray) -> pa.Array:
    """Keys of shape (n, 16), uint8, as fixed-size binary."""
    buffer = pa.py_buffer(keys.tobytes())
    return pa.FixedSizeBinaryArray.from_buffers(pa.binary(16), len(keys), [None, buffer])


def changed(context: Context) -> ContractError:
    """The error for a table that was rewritten during the run."""
    return ContractError(
        f"The table of {context.party} was rewritten while the run was using it.",
        "Trigger a new run when the job that writes it has ended.",
    )
