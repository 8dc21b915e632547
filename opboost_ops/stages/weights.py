"""What each training row counts, and which labels an objective takes: the label holder's own."""

from collections.abc import Mapping, Sequence

import numpy as np
import polars as pl

from opboost_ops.config.federation import Label, Training
from opboost_ops.errors import ContractError
from opboost_ops.stages import raw_table
from opboost_ops.stages.stage import Context

#: Of the training frame, beside `assemble.LABEL`.
WEIGHT = "weight"

#: Objectives that are of counts or amounts.
_NOT_NEGATIVE = ("poisson", "tweedie")


def require_trainable(context: Context) -> None:
    """Refuse a table with labels or weights that training would refuse, before anything leaves.

    Raises:
        ContractError: Which column, and what is wrong with it.
    """
    party, training = context.federation.parties[context.party], context.federation.training
    if context.purpose != "train" or party.role != "label_holder":
        return
    if training.weight_column is not None:
        frame = raw_table.read(context, [training.weight_column], "training.weight_column needs")
        _numbers(frame.get_column(training.weight_column))
    if training.objective in _NOT_NEGATIVE and party.label is not None:
        frame = raw_table.read(context, [party.label.column])
        require_labels(training, frame.get_column(party.label.column).cast(pl.Float64).to_numpy())


def require_labels(training: Training, label: np.ndarray) -> None:
    """Refuse numbers that the objective does not take.

    Args:
        training: As declared.
        label: Numbers or class indices, shape (n,).

    Raises:
        ContractError: One is negative, or all are zero.
    """
    if training.objective in _NOT_NEGATIVE and not (label.min() >= 0 and label.sum() > 0):
        raise ContractError(
            f"training.objective is {training.objective}, and the label holds negative numbers or "
            "nothing but zeros.",
            "Declare another objective, for example l2, or correct the table.",
        )


def weights_of(
    rows: pl.DataFrame,
    training: Training,
    label: Label,
    codes: np.ndarray,
    classes: Sequence[str | int],
) -> np.ndarray | None:
    """How much each training row counts.

    Args:
        rows: Training rows of the label holder's table, shape (n, ...).
        training: As declared.
        label: The label's declaration.
        codes: Class indices or numbers, shape (n,).
        classes: Class values by index; none in regression.

    Returns:
        Float64, shape (n,), with a mean of 1; None where all count alike.

    Raises:
        ContractError: The weights are no positive numbers, or name a class that there is not.
    """
    if training.weight_column is None and training.class_weight is None:
        return None
    found = np.ones(len(codes))
    if training.weight_column is not None:
        found = _numbers(rows.get_column(training.weight_column))
    if training.class_weight is not None:
        found = found * _by_class(training.class_weight, label, codes, classes)
    return np.asarray(found / found.mean())


def _numbers(values: pl.Series) -> np.ndarray:
    good = values.dtype.is_numeric() and not values.null_count()
    found = values.cast(pl.Float64).to_numpy() if good else np.array([-1.0])
    if not (np.isfinite(found).all() and found.min() >= 0 and found.sum() > 0):
        raise ContractError(
            f"training.weight_column {values.name} holds something other than numbers of 0 or "
            "more, or nothing but zeros.",
            "Correct the column, or name another one.",
        )
    return found


def _by_class(
    given: str | Mapping[str | int, float],
    label: Label,
    codes: np.ndarray,
    classes: Sequence[str | int],
) -> np.ndarray:
    index = codes.astype(np.int64)
    if not isinstance(given, Mapping):
        counts = np.bincount(index, minlength=len(classes))
        return np.asarray((len(codes) / (len(classes) * np.maximum(counts, 1)))[index])
    named = {str(name): weight for name, weight in given.items()}
    if unknown := sorted(set(named) - {str(c) for c in classes}):
        raise ContractError(
            f"training.class_weight names {', '.join(unknown)}, which is no class of the label "
            f"{label.column}.",
            "Write classes as the table has them.",
        )
    return np.array([named.get(str(c), 1.0) for c in classes])[index]
