"""A feature holder's raw values -> integers of the declared domains."""

import numpy as np
import polars as pl
import pyarrow as pa

from opboost_ops.config.columns import missing_name
from opboost_ops.config.federation import Federation
from opboost_ops.errors import ContractError
from opboost_ops.exchange.encoding import smallest_integers
from opboost_ops.pipeline.inputs import raw_table


def domain_integers(federation: Federation, party: str, frame: pl.DataFrame) -> pa.Table:
    """A feature holder's rows as integers of the declared domains.

    Args:
        federation: As declared.
        party: Whose features they are.
        frame: Raw columns, each a feature.

    Returns:
        A column for each feature (a category's position for nominal ones) and for each missing
        bit. Values outside the bounds are clipped.

    Raises:
        ContractError: A value is missing where no rule for missing values is declared.
    """
    domain = federation.domain.to_domain()
    columns: dict[str, pa.Array] = {}
    there = set(frame.columns)
    for name, feature in federation.parties[party].features.items():
        if name not in there:
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
            columns[name] = smallest_integers(feature.domain_map(domain).encode(values))
        if feature.missing_bit is not None:
            bits = raw_table.missing(column).astype(np.int64)
            columns[missing_name(name)] = smallest_integers(bits)
    return pa.table(columns)
