"""Arrow: domain integers -> randomised domain integers (OpBoost, section 4)."""

from typing import Any

import numpy as np
import pyarrow as pa

from opboost_ops.config.columns import Column
from opboost_ops.exchange.encoding import smallest_integers
from opboost_ops.mechanisms import UnaryEncoding
from opboost_ops.mechanisms.release import randomise, randomise_bit
from opboost_ops.privacy.consent import require_consent
from opboost_ops.scratch.arrays import Scratch, slices
from opboost_ops.stages.capped_values import HELD, capped_values, person_keys
from opboost_ops.stages.stage import Context, Outcome


def desensitize(context: Context) -> Outcome:
    """Randomise every protected cell by its own mechanism, with noise keyed by the person.

    The run's draw is taken first: its cells are charged, and from then on count as released.

    Raises:
        BudgetError: A budget would be exceeded, or a cell state is lost; nothing was charged.
        PolicyError: The party's policy does not allow a feature or a mechanism.
    """
    require_consent(context.policy, context.federation, context.party)
    table = context.home.table("preprocessed")
    keys = person_keys(context)
    values, draws = capped_values(context, table, keys)
    released = randomised(context, values, keys)
    return Outcome(
        tables={"randomised": as_table(released, context.home.scratch)},
        documents={HELD: {"draws": draws}},
        summary={"rows": table.num_rows},
    )


def randomised(
    context: Context, values: dict[str, np.ndarray], keys: np.ndarray
) -> dict[str, np.ndarray]:
    """Randomised values of some rows, by column, shape (n,) each.

    Args:
        context: A stage's.
        values: What may go of them, by source, integers, shape (n,) each; columns of other sources
            are left out.
        keys: The rows' person keys, shape (n, 16), uint8.
    """
    secret = context.noise_secret()
    columns = [column for column in context.columns() if column.source in values]
    scratch = context.home.scratch
    released = {c.name: scratch.zeros(len(keys), _kind(c)) for c in columns}
    for rows in slices(len(keys)):
        people = keys[rows]
        wide = {source: part[rows].astype(np.int64) for source, part in values.items()}
        for column in columns:
            released[column.name][rows] = _of_column(column, wide[column.source], people, secret)
    return released


def as_table(columns: dict[str, np.ndarray], scratch: Scratch | None = None) -> pa.Table:
    """Columns in the smallest types that hold them.

    Args:
        columns: Integers, shape (n,) each, by name.
        scratch: Where they are, if they are more than it holds.
    """
    return pa.table({name: smallest_integers(v, scratch) for name, v in columns.items()})


def _of_column(column: Column, values: np.ndarray, keys: np.ndarray, secret: bytes) -> np.ndarray:
    mechanism = column.mechanism
    if not isinstance(mechanism, UnaryEncoding):
        return randomise(
            values, keys, mechanism, column.domain, column.map_digest, secret, column.uuid
        )
    assert column.bit is not None
    size, bit = column.source_domain.size, column.bit
    return randomise_bit(values, size, bit, keys, mechanism, column.map_digest, secret, column.uuid)


def _kind(column: Column) -> np.dtype[Any]:
    """A small type that holds whatever a column may release."""
    outputs = column.mechanism.channel(column.domain).outputs
    return np.dtype(np.int64) if outputs.min() < 0 else np.min_scalar_type(int(outputs.max()))
