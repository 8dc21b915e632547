"""Categories and classes in one text form, whatever type a file keeps them in."""

import polars as pl

from opboost_ops.config.feature import canonical
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
