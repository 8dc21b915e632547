"""Rows of a run: which are held out for evaluation, whether they suffice, and their weights."""

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from uuid import UUID

import numpy as np
import polars as pl

from opboost_ops.config.federation import Federation
from opboost_ops.config.training import Training
from opboost_ops.errors import ContractError
from opboost_ops.exchange.sealed.ids import Reader, hashed
from opboost_ops.pipeline.inputs.raw_blocks import blocks, unchanged_blocks
from opboost_ops.pipeline.stage import Context
from opboost_ops.tables.spill.arrays import Scratch, release_memory, slices, total

#: Bytes of the hash of an ID, which is compared with the share.
_BYTES = 8

#: Of the training frame, beside `assemble.LABEL`.
WEIGHT = "weight"

#: Objectives that are of counts or amounts.
_NOT_NEGATIVE = ("poisson", "tweedie")

#: The squares of larger numbers are no 32-bit floats.
_LARGEST = 1e18


def hashed_out(federation: UUID, share: float, messages: Sequence[bytes]) -> np.ndarray:
    """Decide by a public hash of each ID whether its row is held out, bool, shape (n,).

    The hash is keyed by the federation's permanent name, so that the choice stays the same in every
    run and under every agreement, depends on no other row, and is the same at all parties.

    Args:
        federation: The federation's ``uuid``.
        share: The share of all IDs to hold out, between 0 and 1.
        messages: The IDs as `exchange.sealed.ids` writes them, shape (n,).
    """
    keyed = hashlib.blake2b(digest_size=_BYTES, key=federation.bytes)
    numbers = hashed(keyed, messages).view(">u8").ravel()
    return np.asarray(numbers < np.uint64(int(share * 2 ** (8 * _BYTES))))


def held_out_in(federation: Federation, block: pl.DataFrame) -> np.ndarray:
    """Which rows of a block of raw columns are held out, bool, shape (n,).

    Args:
        federation: As declared.
        block: Rows with the ID.
    """
    messages = Reader(federation.id.type).messages(block.get_column(federation.id.column).to_list())
    return hashed_out(federation.uuid, federation.training.holdout, messages)


def held_out_rows(context: Context) -> np.ndarray:
    """Which rows of the party's table are held out, bool, shape (n,).

    Args:
        context: The party's.

    Raises:
        ContractError: The table was rewritten.
    """
    federation, rows = context.federation, context.home.json("table")["rows"]

    def blocks() -> Iterator[np.ndarray]:
        for _, block in unchanged_blocks(context, [federation.id.column]):
            yield held_out_in(federation, block)

    return context.home.scratch.filled(rows, bool, blocks())


def require_rows(context: Context, rows: int) -> None:
    """Refuse to release of a table that is smaller than the party's policy allows.

    Args:
        context: The feature holder's.
        rows: Of its table.

    Raises:
        ContractError: It has fewer rows than the policy requires.
    """
    least = getattr(context.policy.alignment.least_rows, context.purpose)
    if rows < least:
        raise ContractError(
            f"The policy of {context.party} requires {least:,} rows in its table for a "
            f"{context.purpose} run, and there are fewer.",
            "Its owner may lower alignment.least_rows in policy.yaml.",
        )


def require_common(context: Context, common: int) -> None:
    """Refuse to train on fewer common people than the party's policy allows; any may be scored.

    Args:
        context: The label holder's.
        common: How many people are common to all.

    Raises:
        ContractError: It is a training run, and they are fewer than the policy requires.
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
    """Refuse a table with labels or weights that training would refuse, before anything leaves.

    Raises:
        ContractError: Which column, and what is wrong with it.
    """
    party, training = context.declared, context.federation.training
    if context.purpose != "train" or party.role == "feature_holder":
        return
    if (name := training.weight_column) is not None:
        read = blocks(context, [name], "training.weight_column needs")
        # All of them are looked at: one may be no number.
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
    """Refuse numbers to predict whose squares no 32-bit float holds, in which boosters count.

    Args:
        labels: Numbers, shape (n,); gaps are another check's.
        name: The label's column.

    Raises:
        ContractError: A number is infinite or too large.
    """
    with np.errstate(invalid="ignore"):
        excess = int((np.abs(labels) > _LARGEST).sum())
    if excess:
        raise ContractError(
            f"The label {name} has {excess:,} numbers beyond {_LARGEST:g} in size.",
            "Correct the table: such a number may stand for an unknown value. Leave its row out.",
        )


def require_labels(training: Training, labels: Iterable[np.ndarray]) -> None:
    """Refuse numbers that the objective does not take.

    Args:
        training: As declared.
        labels: Numbers or class indices, some at a time.

    Raises:
        ContractError: One is negative, or all are zero.
    """
    if training.objective not in _NOT_NEGATIVE:
        return
    negative = above = False
    for some in labels:
        negative |= not (some >= 0).all()  # Nor is a gap.
        above |= bool((some > 0).any())
        release_memory()
    if negative or not above:
        raise ContractError(
            f"training.objective is {training.objective}, and the label holds negative numbers or "
            "nothing but zeros.",
            "Declare another objective, for example l2, or correct the table.",
        )


def weights_in(values: pl.Series) -> np.ndarray:
    """Weights as they stand in some rows of the table, float64, shape (n,).

    Args:
        values: Of the weight column.

    Raises:
        ContractError: They are no numbers of 0 or more, or too large.
    """
    if values.dtype.is_numeric() and not values.null_count():
        weights = values.cast(pl.Float64).to_numpy()
        if ((weights >= 0) & (weights <= _LARGEST)).all():
            return weights
    raise _no_weights(values.name)


def weights_of(column: str, values: np.ndarray, scratch: Scratch) -> np.ndarray:
    """How much each training row counts.

    Args:
        column: ``training.weight_column``.
        values: `weights_in` of the training rows, shape (n,).
        scratch: Holds them on disk where they are too many.

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
