"""Arrow: a feature holder's raw table -> integers of the declared domain."""

import numpy as np
import pyarrow as pa

from opboost_ops.errors import ContractError
from opboost_ops.exchange.encoding import integers, smallest_integers
from opboost_ops.stages import raw_table
from opboost_ops.stages.digest_ids import changed
from opboost_ops.stages.stage import Context, Outcome


def preprocess(context: Context) -> Outcome:
    """Map the aligned rows onto the domain; rows come in the common order, held-out ones last.

    Raises:
        ContractError: The table was rewritten, the alignment does not fit it, or a value is
            missing where no rule for missing values is declared.
    """
    if raw_table.fingerprint(context) != context.home.json("table")["sha256"]:
        raise changed(context)
    alignment = context.receive("alignment", context.party)
    positions = integers(alignment.table, "position")
    frame = raw_table.read(context, list(context.features))
    if len(np.unique(positions)) != len(positions) or positions.max() >= frame.height:
        raise ContractError(
            "The alignment names a row twice, or a row that the table does not have.",
            "Trigger a new run.",
        )
    domain = context.federation.domain.to_domain()
    columns: dict[str, pa.Array] = {}
    clipped: dict[str, int] = {}
    for name, feature in context.federation.parties[context.party].features.items():
        values = raw_table.numbers(frame.get_column(name), feature)[positions]
        if not np.isfinite(values).all():
            raise ContractError(
                f"{context.party}.{name} has missing or infinite values.",
                "Declare `missing: {fill: ...}` for it, or correct the table.",
            )
        mapping = feature.domain_map(domain)
        clipped[name] = mapping.clipped(values)
        columns[name] = smallest_integers(mapping.encode(values))
    return Outcome(
        tables={"preprocessed": pa.table(columns), "positions": alignment.table},
        documents={
            "preprocessed": {
                "alignment": alignment.digest,
                "clipped": clipped,
                **{side: alignment.document[side] for side in ("train", "holdout")},
            }
        },
        summary={"rows": len(positions), "features": len(columns)},
    )
