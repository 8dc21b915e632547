"""What each training row counts, and which labels an objective takes: the label holder's own."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import polars as pl

from opboost_ops.config.federation import Label
from opboost_ops.config.training import HoldoutColumn, Training
from opboost_ops.errors import ContractError
from opboost_ops.scratch.arrays import Scratch, release_memory, slices
from opboost_ops.scratch.figures import total
from opboost_ops.stages.raw_blocks import blocks
from opboost_ops.stages.raw_table import require_holdout
from opboost_ops.stages.stage import Context

#: Of the training frame, beside `assemble.LABEL`.
WEIGHT = "weight"

#: Objectives that are of counts or amounts.
_NOT_NEGATIVE = ("poisson", "tweedie")

#: The squares of larger numbers are no 32-bit floats.
_LARGEST = 1e18


def require_trainable(context: Context) -> None:
    """Refuse a table with labels or weights that training would refuse, before anything leaves.

    Raises:
        ContractError: Which column, and what is wrong with it.
    """
    party, training = context.declared, context.federation.training
    if context.purpose != "train" or party.role != "label_holder":
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
    if label is not None and isinstance(training.holdout, HoldoutColumn):
        _require_two_held_out(context, label, training.holdout.column)
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


def _require_two_held_out(context: Context, label: Label, holdout: str) -> None:
    """Refuse held-out rows on which no ranking can be judged."""
    if label.task == "regression":
        return
    classes: set[Any] = set()
    for frame in blocks(context, [label.column, holdout]):
        require_holdout(frame.get_column(holdout))
        labels = frame.filter(holdout).get_column(label.column)
        classes.update(labels.drop_nulls().unique().to_list())
    if len(classes) < 2:
        raise ContractError(
            f"The rows that {holdout} holds out have {len(classes)} classes of {label.column}: "
            "no model can be judged on them.",
            "Hold out rows of two classes or more.",
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
        found = values.cast(pl.Float64).to_numpy()
        if ((found >= 0) & (found <= _LARGEST)).all():
            return found
    raise _no_weights(values.name)


def weights_of(
    given: np.ndarray | None,
    training: Training,
    label: Label,
    codes: np.ndarray,
    classes: Sequence[str | int],
    scratch: Scratch,
) -> np.ndarray | None:
    """How much each training row counts.

    Args:
        given: `weights_in` of the training rows, shape (n,); None where no column is declared.
        training: As declared.
        label: The label's declaration.
        codes: Class indices or numbers, shape (n,).
        classes: Class values by index; none in regression.
        scratch: Where they wait, if they are more than it holds.

    Returns:
        Float64, shape (n,), with a mean of 1, in memory or on disk; None where all count alike.

    Raises:
        ContractError: All weights are zero, or a class is named that there is not.
    """
    if given is None and training.class_weight is None:
        return None
    of_class = None
    if training.class_weight is not None:
        of_class = _by_class(training.class_weight, label, codes, classes)
    found, above = scratch.zeros(len(codes), np.float64), given is None
    for some in slices(len(codes)):
        found[some] = 1.0 if given is None else given[some]
        above |= bool(found[some].any())
        if of_class is not None:
            found[some] *= of_class[codes[some].astype(np.int64)]
    if not above:
        raise _no_weights(training.weight_column or "")
    mean = total(found) / len(found)
    for some in slices(len(found)):
        found[some] /= mean
    return found


def _no_weights(name: str) -> ContractError:
    return ContractError(
        f"training.weight_column {name} holds something other than numbers from 0 to "
        f"{_LARGEST:g}, or nothing but zeros.",
        "Correct the column, or name another one.",
    )


def _by_class(
    given: str | Mapping[str | int, float],
    label: Label,
    codes: np.ndarray,
    classes: Sequence[str | int],
) -> np.ndarray:
    """What a row of each class counts, float64, by index."""
    if not isinstance(given, Mapping):
        counts = np.zeros(len(classes), dtype=np.int64)
        for some in slices(len(codes)):
            counts += np.bincount(codes[some].astype(np.int64), minlength=len(classes))
        return np.asarray(len(codes) / (len(classes) * np.maximum(counts, 1)))
    named = {str(name): weight for name, weight in given.items()}
    if unknown := sorted(set(named) - {str(c) for c in classes}):
        raise ContractError(
            f"training.class_weight names {', '.join(unknown)}, which is not a class of the label "
            f"{label.column}.",
            "Write classes as the table has them.",
        )
    return np.array([named.get(str(c), 1.0) for c in classes])
