"""Categories and classes in one text form, whatever type a file keeps them in, and their number."""

import polars as pl

from opboost_ops.config.feature import canonical
from opboost_ops.config.federation import Label
from opboost_ops.errors import ContractError
from opboost_ops.tables.column_types import holds_categories


def category_texts(values: pl.Series) -> pl.Series:
    """A column's categories in their form; missing ones are null, and so is an empty text.

    Args:
        values: Of a type that holds categories, shape (n,).
    """
    kind = values.dtype
    if kind.is_float():
        values = values.fill_nan(None)
        whole = values.cast(pl.Int64, strict=False)
        whole = whole.set(whole.cast(kind) != values, None)
        texts = whole.cast(pl.String).fill_null(values.cast(pl.String))
    elif kind.is_decimal():
        # As text: a float has no more than 15 digits of a code.
        texts = values.cast(pl.String).str.replace(r"\.0*$|(\.\d*[1-9])0+$", "$1")
    elif isinstance(kind, pl.Datetime):
        # A day, however fine its type is; a moment to the microsecond, as few digits as it has.
        texts = values.dt.cast_time_unit("us").cast(pl.String)
        texts = texts.str.replace(r"\.0+|(\.\d*[1-9])0+", "$1")
        texts = texts.str.replace(r" 00:00:00$", "")
    else:
        texts = values.cast(pl.String)
    if kind.is_integer() or kind in (pl.Boolean, pl.Null):
        return texts
    forms = {text: canonical(text) or None for text in texts.unique().drop_nulls().to_list()}
    if all(text == form for text, form in forms.items()):
        return texts
    return texts.replace_strict(forms, default=None, return_dtype=pl.String)


def label_values(values: pl.Series) -> pl.Series:
    """A label in a type that follows from its column's alone: numbers, or texts in their form.

    Args:
        values: The label column, or a block of it, shape (n,).
    """
    kind = values.dtype
    if kind.is_decimal():
        return values.cast(pl.Float64)
    if kind == pl.Boolean:
        return values.cast(pl.Int64)
    return category_texts(values) if holds_categories(kind) and not kind.is_numeric() else values


def class_values(values: pl.Series) -> pl.Series:
    """A whole label's classes: whole numbers as integers, all others as texts.

    Args:
        values: The label column, shape (n,).
    """
    values = label_values(values)
    if not values.dtype.is_float():
        return values
    numbers = values.fill_nan(None)
    whole = numbers.cast(pl.Int64, strict=False)
    same = whole.cast(pl.Float64).eq_missing(numbers.cast(pl.Float64)).all()
    return whole if same else category_texts(values)


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
    problem = f"has {classes:,} classes in {rows:,} rows"
    if values.dtype == pl.String and is_number(values):
        return f"{problem}: it is text, and its values are numbers"
    return problem


def is_number(values: pl.Series) -> bool:
    """True if all texts of a column are numbers, with a point or a comma.

    Args:
        values: Text.
    """
    plain = values.drop_nulls().str.strip_chars().str.replace(",", ".", literal=True)
    return len(plain) > 0 and plain.cast(pl.Float64, strict=False).null_count() == 0


def must_be_plausible(label: Label) -> bool:
    """True if a label has classes that nobody has declared."""
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
