"""Arrow: a feature holder's raw table -> integers of the declared domain."""

import numpy as np
import polars as pl
import pyarrow as pa

from opboost_ops.config.columns import missing_name
from opboost_ops.config.federation import Fill
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
    frame = raw_table.read(context, list(context.federation.parties[context.party].features))
    if len(np.unique(positions)) != len(positions) or positions.max() >= frame.height:
        raise ContractError(
            "The alignment names a row twice, or a row that the table does not have.",
            "Trigger a new run.",
        )
    table, clipped = domain_integers(context, frame[positions])
    return Outcome(
        tables={"preprocessed": table, "positions": alignment.table},
        documents={
            "preprocessed": {
                "alignment": alignment.digest,
                "clipped": clipped,
                **{side: alignment.document[side] for side in ("train", "holdout")},
            }
        },
        summary={"rows": len(positions), "features": table.num_columns},
    )


def domain_integers(
    context: Context, frame: pl.DataFrame, party: str = ""
) -> tuple[pa.Table, dict[str, int]]:
    """A feature holder's rows as integers of the declared domains.

    Args:
        context: The party's who has the rows.
        frame: Raw columns, each a feature.
        party: Whose features they are; that party's when absent.

    Returns:
        A column for each feature (a category's position for nominal ones) and for each missing
        bit; and how many values of each feature were clipped.

    Raises:
        ContractError: A value is missing where no rule for missing values is declared.
    """
    domain = context.federation.domain.to_domain()
    columns: dict[str, pa.Array] = {}
    clipped: dict[str, int] = {}
    party = party or context.party
    for name, feature in context.federation.parties[party].features.items():
        if name not in frame.columns:
            continue
        column = frame.get_column(name)
        values = raw_table.numbers(column, feature)
        if not np.isfinite(values).all():
            raise ContractError(
                f"{party}.{name} has missing or infinite values.",
                "Declare `missing: {fill: ...}` for it, or correct the table.",
            )
        if feature.type == "nominal":
            columns[name] = smallest_integers(values.astype(np.int64))
        else:
            mapping = feature.domain_map(domain)
            clipped[name] = mapping.clipped(values)
            columns[name] = smallest_integers(mapping.encode(values))
        if isinstance(feature.missing, Fill) and feature.missing.bit is not None:
            missing = raw_table.missing(column)
            columns[missing_name(name)] = smallest_integers(missing.astype(np.int64))
    return pa.table(columns), clipped
