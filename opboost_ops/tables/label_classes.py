"""Whether a label has as many classes as can be learnt, before anything is charged for it."""

import polars as pl

from opboost_ops.config.federation import Label
from opboost_ops.errors import ContractError

#: Most classes that nobody has declared.
MOST_CLASSES = 100

#: Up to so many classes, any number of rows is enough.
FEW_CLASSES = 20

#: Fewest rows a class on average, where there are more.
_ROWS = 10


def implausible(values: pl.Series) -> str:
    """Why a column is no label of classes, in words; empty if it may be one.

    Args:
        values: The label column, without gaps.
    """
    classes, rows = values.n_unique(), len(values)
    if classes <= FEW_CLASSES or (classes <= MOST_CLASSES and rows >= _ROWS * classes):
        return ""
    found = f"has {classes:,} classes in {rows:,} rows"
    if values.dtype == pl.String and is_number(values):
        return f"{found}: it is text, and its values are numbers"
    return found


def is_number(values: pl.Series) -> bool:
    """Whether all texts of a column are numbers, with a point or a comma.

    Args:
        values: Text.
    """
    plain = values.drop_nulls().str.strip_chars().str.replace(",", ".", literal=True)
    return len(plain) > 0 and plain.cast(pl.Float64, strict=False).null_count() == 0


def must_be_plausible(label: Label) -> bool:
    """Whether a label has classes that nobody has declared."""
    return label.task != "regression" and not label.classes


def require_plausible(values: pl.Series, label: Label) -> None:
    """Refuse a label of too many classes; declared classes are taken as they are.

    Args:
        values: The label column.
        label: Its declaration.

    Raises:
        ContractError: It looks like a number to predict, or like free text.
    """
    if not must_be_plausible(label):
        return
    if why := implausible(values.drop_nulls()):
        raise ContractError(
            f"The label {label.column} {why}: too many to learn.",
            "Declare label.task: regression for a number, and store it as one; or group the "
            "classes, or declare all of them in label.classes.",
        )
