"""Step: copied values of people without a pin -> integers of the declared domain."""

import numpy as np
import pyarrow as pa

from opboost_ops.exchange.files import narrow_integers, smallest_integers
from opboost_ops.pipeline.inputs import own_copy
from opboost_ops.pipeline.inputs.raw_table import domain_integers
from opboost_ops.pipeline.stage import Context, Outcome
from opboost_ops.privacy.declarations import smallest
from opboost_ops.tables.spill.arrays import release_memory

#: Name of the table of domain integers.
PREPROCESSED = "preprocessed"


def preprocess(context: Context) -> Outcome:
    """Map the values of people who are about to be pinned onto the domain.

    Raises:
        ContractError: A value is missing and no rule for missing values is declared.
    """
    # The summary has the table's row count: the number of new people is private.
    rows = context.home.json("table")["rows"]
    features = len(context.declared.features)
    return Outcome(
        tables={PREPROCESSED: _encoded(context)}, summary={"rows": rows, "features": features}
    )


def _encoded(context: Context) -> pa.Table:
    """Return domain integers by source and each row's number; at most one raw block in memory."""
    scratch, rows = context.home.scratch, own_copy.unpinned_rows(context)
    domains = {
        source: domain
        for declaration in context.declarations().values()
        for source, domain in declaration.sources.items()
    }
    kinds = {source: smallest(domain.lower, domain.upper) for source, domain in domains.items()}
    whole = {name: scratch.zeros(rows, kind) for name, kind in kinds.items()}
    places = scratch.zeros(rows, np.int64)
    begin = 0
    for block in own_copy.unpinned_blocks(context) if rows else ():
        table = domain_integers(context.federation, context.party, block)
        here = slice(begin, begin + block.height)
        places[here] = block.get_column(own_copy.ROW).to_numpy()
        for name, column in whole.items():
            column[here] = narrow_integers(table, name)
        begin = here.stop
        del block, table  # Free memory before the next one is read.
        release_memory()
    columns = {
        own_copy.ROW: smallest_integers(places),
        **{n: smallest_integers(whole[n]) for n in kinds},
    }
    return pa.table(columns)
