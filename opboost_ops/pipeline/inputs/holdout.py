"""Held-out rows, the minimum numbers of rows of a run, and checks of labels and weights."""

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from uuid import UUID

import numpy as np
import polars as pl

from opboost_ops.config.federation import Federation
from opboost_ops.config.training import Training
from opboost_ops.errors import ContractError, RowsError
from opboost_ops.exchange.sealed.ids import IdEncoder, hash_each
from opboost_ops.pipeline.inputs.raw_blocks import blocks, unchanged_blocks
from opboost_ops.pipeline.stage import Context
from opboost_ops.tables.spill.arrays import Scratch, release_memory, slices, total

#: Bytes of the hash of an ID that is compared with the holdout share.
_BYTES = 8

#: Column of the training frame, beside `model_columns.LABEL`.
WEIGHT = "weight"

#: Objectives for counts or amounts, which need labels of 0 or more.
_NOT_NEGATIVE = ("poisson", "tweedie")

#: The squares of larger numbers overflow a 32-bit float.
_LARGEST = 1e18


def hashed_out(federation: UUID, share: float, messages: Sequence[bytes]) -> np.ndarray:
    """Return which rows are held out by a public hash of their IDs, bool, shape (n,).

    The hash is keyed by the federation's permanent uuid, so that the choice depends on no other
    row and is the same in every run, under every agreement and at all parties.

    Args:
        federation: The federation's ``uuid``.
        share: Share of all IDs to hold out, between 0 and 1.
        messages: The IDs as encoded by `exchange.sealed.ids`, shape (n,).
    """
    keyed = hashlib.blake2b(digest_size=_BYTES, key=federation.bytes)
    numbers = hash_each(keyed, messages).view(">u8").ravel()
    return np.asarray(numbers < np.uint64(int(share * 2 ** (8 * _BYTES))))


def held_out_in(federation: Federation, block: pl.DataFrame) -> np.ndarray:
    """Return which rows of a block are held out, bool, shape (n,).

    Args:
        federation: The federation as declared.
        block: Raw columns, including the ID.
    """
    messages = IdEncoder(federation.id.type).messages(
        block.get_column(federation.id.column).to_list()
    )
    return hashed_out(federation.uuid, federation.training.holdout, messages)


def held_out_rows(context: Context) -> np.ndarray:
    """Return which rows of the party's table are held out, bool, shape (n,).

    Args:
        context: The party's context.

    Raises:
        ContractError: The table was rewritten.
    """
    federation, rows = context.federation, context.home.json("table")["rows"]

    def blocks() -> Iterator[np.ndarray]:
        for _, block in unchanged_blocks(context, [federation.id.column]):
            yield held_out_in(federation, block)

    return context.home.scratch.filled(rows, bool, blocks())


def require_rows(context: Context, rows: int) -> None:
    """Require the minimum number of rows that the party's policy sets for a release.

    Args:
        context: The feature holder's context.
        rows: Number of rows of its table.

    Raises:
        ContractError: The table has fewer rows than the policy requires.
    """
    least = getattr(context.policy.alignment.least_rows, context.purpose)
    if rows < least:
        raise ContractError(
            f"The policy of {context.party} requires {least:,} rows in its table for a "
            f"{context.purpose} run, and there are fewer.",
            "Its owner may lower alignment.least_rows in policy.yaml.",
        )


def require_common(context: Context, common: int) -> None:
    """Require the policy's minimum number of common people for training; scoring has no minimum.

    Args:
        context: The label holder's context.
        common: Number of people common to all parties.

    Raises:
        ContractError: A training run has fewer than the policy requires.
    """
    least = context.policy.alignment.least_common
    if context.purpose == "score" or common >= least:
        return
    if not common:
        raise ContractError(
            "No ID is common to all parties.",
            "Keys and versions agree. Check that all mean the same ID column and type, and write "
            "IDs in one form (leading zeros, case).",
        )
    raise ContractError(
        f"The policy of {context.party} requires {least:,} common people in a training run, and "
        "there are fewer.",
        "No model was trained. Its owner may lower alignment.least_common in policy.yaml.",
    )


def require_trainable(context: Context) -> None:
    """Refuse labels or weights that training would refuse, before anything is released.

    Raises:
        ContractError: A column is invalid; the message names it.
    """
    party, training = context.declared, context.federation.training
    if context.purpose != "train" or party.role == "feature_holder":
        return
    if (name := training.weight_column) is not None:
        read = blocks(context, [name], "training.weight_column needs")
        # A list, not any(): every block is validated, also after a positive weight.
        if not sum([bool(weights_in(frame.get_column(name)).any()) for frame in read]):
            raise _no_weights(name)
    label = party.label
    if label is not None and label.task == "regression":
        for frame in blocks(context, [label.column]):
            require_moderate(frame.to_series().cast(pl.Float64).to_numpy(), label.column)
    if training.objective in _NOT_NEGATIVE and party.label is not None:
        read = blocks(context, [party.label.column])
        labels = (frame.to_series().cast(pl.Float64).to_numpy() for frame in read)
        require_labels(training, labels)


def require_moderate(labels: np.ndarray, name: str) -> None:
    """Refuse labels whose squares overflow the 32-bit floats that boosters compute with.

    Args:
        labels: Numbers, shape (n,); missing values are checked elsewhere.
        name: The label's column.

    Raises:
        RowsError: A number is infinite or too large.
    """
    with np.errstate(invalid="ignore"):
        excess = int((np.abs(labels) > _LARGEST).sum())
    if excess:
        raise RowsError(
            f"The label {name} has {excess:,} numbers beyond {_LARGEST:g} in size.",
            "Correct the table: such a number may stand for an unknown value. Leave its row out.",
        )


def require_labels(training: Training, labels: Iterable[np.ndarray]) -> None:
    """Refuse labels that the objective does not accept.

    Args:
        training: The declared training.
        labels: Numbers or class indices, in blocks.

    Raises:
        ContractError: A label is negative, or all are zero.
    """
    if training.objective not in _NOT_NEGATIVE:
        return
    negative = above = False
    for some in labels:
        negative |= not (some >= 0).all()  # True for NaN as well.
        above |= bool((some > 0).any())
        release_memory()
    if negative or not above:
        raise ContractError(
            f"training.objective is {training.objective}, and the label holds negative numbers or "
            "nothing but zeros.",
            "Declare another objective, for example l2, or correct the table.",
        )


def weights_in(values: pl.Series) -> np.ndarray:
    """Return the weights of rows as float64, shape (n,).

    Args:
        values: Values of the weight column.

    Raises:
        ContractError: A weight is not a number, negative or too large.
    """
    if values.dtype.is_numeric() and not values.null_count():
        weights = values.cast(pl.Float64).to_numpy()
        if ((weights >= 0) & (weights <= _LARGEST)).all():
            return weights
    raise _no_weights(values.name)


def weights_of(column: str, values: np.ndarray, scratch: Scratch) -> np.ndarray:
    """Scale the weights of training rows to a mean of 1.

    Args:
        column: ``training.weight_column``.
        values: `weights_in` of the training rows, shape (n,).
        scratch: Holds the result on disk if it is too large for memory.

    Returns:
        Float64, shape (n,), with a mean of 1.

    Raises:
        ContractError: All weights are zero.
    """
    mean = total(values) / len(values)
    if not mean:
        raise _no_weights(column)
    scaled = scratch.zeros(len(values), np.float64)
    for some in slices(len(values)):
        scaled[some] = values[some] / mean
    return scaled


def _no_weights(name: str) -> ContractError:
    return ContractError(
        f"training.weight_column {name} holds something other than numbers from 0 to "
        f"{_LARGEST:g}, or nothing but zeros.",
        "Correct the column, or name another one.",
    )
