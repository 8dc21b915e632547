"""Arrow: a party's raw table -> integers of the declared domain, and held-out rows as they are."""

import numpy as np
import polars as pl
import pyarrow as pa

from opboost_ops.config.federation import HoldoutColumn
from opboost_ops.config.shared_columns import shared_columns
from opboost_ops.errors import ContractError
from opboost_ops.exchange.encoding import smallest_integers
from opboost_ops.mechanisms import noise
from opboost_ops.stages import raw_table
from opboost_ops.stages.assemble import LABEL, encode_label
from opboost_ops.stages.digest_ids import changed
from opboost_ops.stages.stage import Context, Outcome


def encode_rows(context: Context) -> Outcome:
    """Encode this party's own rows for horizontal learning; nothing leaves.

    Raises:
        ContractError: The table was rewritten, a value is missing without a declared fill, or no
            row is left to train on or to hold out.
    """
    if raw_table.fingerprint(context) != context.home.json("table")["sha256"]:
        raise changed(context)
    label = context.federation.label
    assert label is not None
    frame = raw_table.read(context)
    held_out = _held_out(context, frame)
    if held_out.all() or not held_out.any():
        raise ContractError(
            f"{context.party} has no row to train on, or none to hold out.",
            "Take part with more rows, or declare another holdout.",
        )
    truth, classes = encode_label(frame.get_column(label.column), label, None)
    raw = raw_matrix(context, frame)
    names = list(raw)
    integers = {
        column.name: smallest_integers(column.integers(_numbers(context, frame, column.feature)))
        for column in shared_columns(context.federation)
    }
    training = pa.table({**integers, LABEL: truth}).filter(pa.array(~held_out))
    private = context.federation.training.private is not None
    return Outcome(
        tables={
            "rows": training,
            "holdout_frame": pa.table({**raw, LABEL: truth}).filter(pa.array(held_out)),
        },
        documents={
            "frame": {
                "names": names,
                "ranked": [],
                "categories": {},
                "task": label.task,
                "classes": classes,
            }
        },
        # With a guarantee, how many rows there are is told with noise, by the sums.
        summary={"features": len(names), **({} if private else {"rows": training.num_rows})},
        discloses="" if private else "how many rows this party trains on",
    )


def raw_matrix(context: Context, frame: pl.DataFrame) -> dict[str, np.ndarray]:
    """Rows as the model of horizontal learning sees them, float64 columns by name.

    Args:
        context: The party's.
        frame: Raw columns, each a feature.

    Raises:
        ContractError: A value is missing where none may be.
    """
    return {
        column.name: column.raw(_numbers(context, frame, column.feature))
        for column in shared_columns(context.federation)
    }


def _numbers(context: Context, frame: pl.DataFrame, name: str) -> np.ndarray:
    feature = context.federation.features[name]
    values = raw_table.numbers(frame.get_column(name), feature)
    if np.isinf(values).any():
        raise ContractError(f"{context.party}.{name} has infinite values.", "Correct the table.")
    if feature.missing != "keep" and np.isnan(values).any():
        kept = "" if feature.type == "nominal" else ", or `missing: keep`,"
        raise ContractError(
            f"{context.party}.{name} has missing values.",
            f"Declare `missing: {{fill: ...}}`{kept} for it, or correct the table.",
        )
    return values


def _held_out(context: Context, frame: pl.DataFrame) -> np.ndarray:
    """Which rows are held out: by a column, or by a keyed hash of the ID, the same every time."""
    holdout = context.federation.training.holdout
    if isinstance(holdout, HoldoutColumn):
        column = frame.get_column(holdout.column)
        raw_table.require_holdout(column)
        return np.asarray(column.to_numpy(), dtype=bool)
    identity = context.federation.id
    ids = frame.get_column(identity.column).cast(
        pl.String if identity.type == "string" else pl.Int64
    )
    secret = noise.receiver_secret(
        context.site.noise_secret(), f"holdout:{context.federation.name}"
    )
    keys = noise.person_keys(secret, ids.to_arrow(), identity.type)
    words = np.ascontiguousarray(keys).view(np.uint64)[:, 0]
    return np.asarray(words < np.uint64(int(holdout * 2**64)), dtype=bool)
