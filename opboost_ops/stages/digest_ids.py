"""Arrow: IDs -> person keys, which stay home, and keyed alignment digests in rising order."""

import numpy as np
import pyarrow as pa

from opboost_ops.errors import ContractError
from opboost_ops.exchange.artifact import Draft
from opboost_ops.mechanisms import noise
from opboost_ops.stages import raw_table
from opboost_ops.stages.positions import ORDER, binary, order_table, rising
from opboost_ops.stages.raw_blocks import blocks
from opboost_ops.stages.stage import Context, Outcome

DISCLOSES = (
    "row count, and a keyed digest of every ID, in rising order: whoever holds the federation's "
    "alignment key can test guessed IDs against them"
)


def digest_ids(context: Context) -> Outcome:
    """Digest the IDs of the party's table, and sort them: no order of the table leaves.

    Person keys stay in the table's order, beside the permutation that leads back to it.

    Raises:
        ContractError: The table is not the one that was checked.
    """
    checked = context.home.json("table")
    if raw_table.fingerprint(context) != checked["sha256"]:
        raise changed(context)
    secrets = [context.alignment_key()]
    if context.party != context.federation.label_holder:
        secrets.append(context.noise_secret())
    digests, *keys = _keyed(context, *secrets)
    order = rising(digests)
    tables = {
        "digests": pa.table({"digest": binary(digests[order])}),
        ORDER: order_table(order),
    }
    if keys:
        tables["person_keys"] = pa.table({"key": binary(keys.pop())})
    if context.party == context.federation.label_holder:
        return Outcome(tables=tables, summary={"rows": len(order)})
    draft = Draft(
        kind="digests",
        about=context.party,
        table=tables["digests"],
        rows=len(order),
        answers=context.plan,
        discloses=DISCLOSES,
    )
    return Outcome(tables=tables, drafts=(draft,), summary={"rows": len(order)})


def _keyed(context: Context, *secrets: bytes) -> list[np.ndarray]:
    """A key of each person under each secret, uint8, shape (n, 16) each."""
    identity = context.federation.id
    parts: list[list[np.ndarray]] = [[] for _ in secrets]
    for block in blocks(context, [identity.column]):
        ids = block.get_column(identity.column).to_arrow()
        for part, secret in zip(parts, secrets, strict=True):
            part.append(noise.person_keys(secret, ids, identity.type))
    # One after the other, so that never more than one of them is there twice.
    return [np.concatenate(parts.pop(0)) for _ in secrets]


def changed(context: Context) -> ContractError:
    """The error for a table that was rewritten during the run."""
    return ContractError(
        f"The table of {context.party} was rewritten while the run was using it.",
        "Trigger a new run when the job that writes it has ended.",
    )
