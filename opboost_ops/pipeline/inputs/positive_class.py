"""Which of two classes is the positive one, whose probability is the score."""

import logging

import polars as pl

from opboost_ops.config.federation import Label
from opboost_ops.errors import ContractError
from opboost_ops.pipeline.stage import Context
from opboost_ops.tables.column_types import TEXTS

_LOG = logging.getLogger("opboost_ops")


def require_positive(context: Context, label: Label, kind: pl.DataType) -> None:
    """Refuse two text classes of which nobody says which one is positive.

    In alphabetical order "no" comes after "default", and the scores are turned round. A federation
    that has a model already keeps the order in which that one was trained.

    Args:
        context: The label holder's, in a training run.
        label: Its declaration.
        kind: The column's type.

    Raises:
        ContractError: The classes are text and undeclared, and there is no model yet.
    """
    if not _undeclared(label, kind):
        return
    if context.registry.versions():
        return
    raise ContractError(
        f"The label {label.column} holds text, and nothing says which of its two classes is "
        "positive.",
        f"Declare label.classes of {context.party} in federation.yaml: both, the positive one "
        "last.",
    )


def warn_undeclared(context: Context, kind: pl.DataType | None) -> None:
    """Tell the label holder's people that the order of classes is alphabetical.

    Args:
        context: The label holder's, in a training run.
        kind: The label column's type.
    """
    label = context.declared.label
    if label is None or kind is None or not _undeclared(label, kind):
        return
    _LOG.warning(
        "%s: label.classes is not declared; of its two text classes the last in alphabetical order "
        "is the positive one, as before. Declare both, the positive one last.",
        context.party,
    )


def positive_of(task: str, classes: list[str | int] | tuple[str | int, ...]) -> str | int | None:
    """The positive class; None where there is none.

    Args:
        task: What is learnt.
        classes: In order.
    """
    return classes[1] if task == "binary" and len(classes) == 2 else None


def _undeclared(label: Label, kind: pl.DataType) -> bool:
    return label.task == "binary" and not label.classes and isinstance(kind, TEXTS)
