"""Domain integers -> those that routed answers may tell of: a cell at its cap keeps its last one.

A routed answer tells exactly between which thresholds a value lies. So it is a function of the true
value, and each further value that it is computed from counts against the policy's `max_changes`,
whatever the thresholds are. A cell at its cap stays at its last value, even where the table returns
to an earlier one: under noise a return costs nothing new, but here it would tell the value of one
more night exactly. Released noise has counts of its own.
"""

import numpy as np
import pyarrow as pa

from opboost_ops.config.columns import Column
from opboost_ops.exchange.encoding import narrow_integers
from opboost_ops.exchange.party_state import open_state
from opboost_ops.mechanisms import noise
from opboost_ops.scratch.arrays import slices
from opboost_ops.scratch.parts import scatter
from opboost_ops.stages.capped_values import hashes_of, person_keys, rising_people, sources
from opboost_ops.stages.stage import Context


def routed_values(
    context: Context, table: pa.Table, names: frozenset[str], chosen: np.ndarray | None
) -> dict[str, np.ndarray]:
    """Values that may be compared with thresholds, counted before anything is answered.

    A retry on the same values gets the same ones again.

    Args:
        context: A stage's.
        table: Preprocessed rows.
        names: The sources of columns that are asked for.
        chosen: Whose rows are answered, bool, shape (n,); everybody's when absent.

    Returns:
        Domain integers by source, shape (n,) each; 0 where nothing is answered.

    Raises:
        BudgetError: A cell state is lost; nothing was counted.
    """
    columns = [column for column in sources(context) if column.source in names]
    values = {c.source: narrow_integers(table, c.source) for c in columns}
    if not columns:
        return values
    scratch = context.home.scratch
    hashes = hashes_of(context, person_keys(context))
    count, asked = len(hashes), None if chosen is None else np.flatnonzero(chosen)
    if asked is not None:
        hashes = hashes[asked]
        values = {name: found[asked] for name, found in values.items()}
    rising, order, wanted = rising_people(scratch, hashes, values)
    held: dict[str, np.ndarray] = {}
    with open_state(context.site) as state:
        with state.together():
            for column in columns:
                known = (column.uuid, _key(context, column), rising)
                most = context.policy.features[column.feature].max_changes
                domain = column.source_domain
                kept = state.cells.hold(*known, wanted[column.source], domain, most, freeze=True)
                state.cells.charge(*known, kept, domain)
                held[column.source] = kept
        state.cells.collect()
    pieces = (
        (
            order[some] if asked is None else asked[order[some]],
            {name: found[some] for name, found in held.items()},
        )
        for some in slices(len(order))
    )
    return scatter(scratch, pieces, count, {name: found.dtype for name, found in held.items()})


def _key(context: Context, column: Column) -> bytes:
    """Names the state of a column's routed answers; another epsilon does not begin it again."""
    domain = column.source_domain
    purpose = f"routes:{column.uuid}:{column.map_digest.hex()}:{domain.lower}:{domain.upper}"
    return noise.keyed_by(context.noise_secret(), purpose)
