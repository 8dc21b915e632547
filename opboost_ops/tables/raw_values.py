"""Converts raw cells by their declaration: dates to numbers, categories to one text form."""

import math
from collections.abc import Mapping

import polars as pl

from opboost_ops.config.feature import Feature, canonical
from opboost_ops.config.federation import Label
from opboost_ops.errors import ContractError, RowsError
from opboost_ops.tables.columns import TEXTS, holds_categories
from opboost_ops.tables.dialect import moments, zoned

#: Maximum number of undeclared classes.
MAX_CLASSES = 100

#: Number of classes up to which any number of rows is sufficient.
FEW_CLASSES = 20

#: Minimum mean number of rows per class with more classes.
_MIN_ROWS_PER_CLASS = 10

#: Seconds from 1970-01-01 to the end of the year 9999.
_MAX_SECONDS = 253_402_300_800.0


def category_texts(values: pl.Series) -> pl.Series:
    """Return a column's categories in canonical form; missing and empty ones are null.

    Args:
        values: A column of a type that holds categories, shape (n,).
    """
    kind = values.dtype
    if kind.is_float():
        values = values.fill_nan(None)
        whole = values.cast(pl.Int64, strict=False)
        whole = whole.set(whole.cast(kind) != values, None)
        texts = whole.cast(pl.String).fill_null(values.cast(pl.String))
    elif kind.is_decimal():
        # As text, because a float has at most 15 digits of a code.
        texts = values.cast(pl.String).str.replace(r"\.0*$|(\.\d*[1-9])0+$", "$1")
    elif isinstance(kind, pl.Datetime):
        # A date if at midnight, whatever its precision; else to the microsecond, in minimal digits.
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
    """Convert a label by its column's type alone: to numbers, or to texts in canonical form.

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
    """Convert a whole label to classes: integral numbers to integers, all others to texts.

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


def class_count_problem(values: pl.Series) -> str:
    """Return why a column has too many classes for a label; empty if it has not.

    Args:
        values: The label column, without missing values.
    """
    classes, rows = values.n_unique(), len(values)
    if classes <= FEW_CLASSES or (classes <= MAX_CLASSES and rows >= _MIN_ROWS_PER_CLASS * classes):
        return ""
    problem = f"has {classes:,} classes in {rows:,} rows"
    if values.dtype == pl.String and is_number(values):
        return f"{problem}: its type is text, but its values are numbers"
    return problem


def is_number(values: pl.Series) -> bool:
    """True if all texts of a column are numbers, with a decimal point or comma."""
    plain = values.drop_nulls().str.strip_chars().str.replace(",", ".", literal=True)
    return len(plain) > 0 and plain.cast(pl.Float64, strict=False).null_count() == 0


def has_undeclared_classes(label: Label) -> bool:
    """True if a label has classes that are not declared."""
    return label.task != "regression" and not label.classes


def require_plausible(values: pl.Series, label: Label) -> None:
    """Raise if a label has too many undeclared classes.

    Args:
        values: The label column.
        label: Its declaration.

    Raises:
        RowsError: The label looks like a number, or like free text.
    """
    if not has_undeclared_classes(label):
        return
    if why := class_count_problem(values.drop_nulls()):
        raise RowsError(
            f"The label {label.column} {why}: too many to learn.",
            "Declare label.task: regression for a number, and store it as one; or group the "
            "classes, or declare all of them in label.classes.",
        )


def declared_values(frame: pl.DataFrame, features: Mapping[str, Feature]) -> pl.DataFrame:
    """Convert a raw table's columns by their declarations; other columns are unchanged.

    Args:
        frame: Raw columns by declared name.
        features: Declarations of some of them.

    Raises:
        ContractError: As for `declared_series`.
    """
    changed, names = [], set(frame.columns)
    for name, feature in features.items():
        if name in names:
            series = frame.get_column(name)
            if (declared := declared_series(series, feature)) is not series:
                changed.append(declared.alias(name))
    return frame.with_columns(changed) if changed else frame


def declared_series(values: pl.Series, feature: Feature) -> pl.Series:
    """Convert a raw column by its declaration; idempotent.

    Args:
        values: Raw values, shape (n,).
        feature: Its declaration.

    Returns:
        Dates and times as numbers of the declared unit since 1970-01-01 (durations as their
        length), decimals as 64-bit floats, and mapped categories; the same series if nothing
        changes.

    Raises:
        ContractError: A text is not a date, or a number is not a count of the unit.
    """
    if feature.type == "numeric":
        return _numeric(values, feature)
    return _categories(values, feature)


def _numeric(values: pl.Series, feature: Feature) -> pl.Series:
    kind = values.dtype
    if kind.is_decimal():
        return values.cast(pl.Float64)
    if feature.unit is None:
        return values
    if kind in TEXTS:
        numbers = _from_text(values.cast(pl.String))
        if numbers.null_count() > values.null_count():
            raise ContractError(
                f"{values.name} is declared in {feature.unit}, but has text that is not a date.",
                "Write dates as 2020-01-31 or 2020-01-31T12:00:00, or as a date column.",
            )
        values, kind = numbers, numbers.dtype
    if not kind.is_temporal():
        _require_counts(values, feature)
        return values
    if kind == pl.Date:
        values = values.cast(pl.Datetime("us"))
    elif kind == pl.Time:
        values = values.cast(pl.Duration("us"))
    elif isinstance(kind, pl.Datetime):
        # The instant itself: all zones count from the same one.
        values = values.cast(pl.Datetime("us", kind.time_zone))
    else:
        values = values.cast(pl.Duration("us"))
    return values.to_physical().cast(pl.Float64) / (feature.seconds * 1e6)


def _require_counts(values: pl.Series, feature: Feature) -> None:
    """Raise for numbers that cannot be counts of the unit: 20240301, or seconds as days."""
    span = values.cast(pl.Float64).abs().fill_nan(None).max()
    if isinstance(span, float) and _MAX_SECONDS < span * feature.seconds < math.inf:
        raise ContractError(
            f"{values.name} is declared in {feature.unit}, and holds numbers beyond the year 9999.",
            f"Numbers count {feature.unit} since 1970-01-01: convert them, or write dates as "
            "2020-01-31.",
        )


def _from_text(text: pl.Series) -> pl.Series:
    plain = pl.col(text.name).str.strip_chars()
    instants = zoned(plain).dt.replace_time_zone(None)
    return text.to_frame().select(pl.coalesce(moments(plain), instants)).to_series()


def _categories(values: pl.Series, feature: Feature) -> pl.Series:
    if not holds_categories(values.dtype):
        return values
    text = category_texts(values)
    declared = {canonical(name): name for name in feature.categories or ()}
    declared |= {canonical(raw): name for raw, name in feature.mapping.items()}
    if not declared:
        return text
    category_of = {
        form: declared.get(form, form if feature.rest is None else feature.rest)
        for form in text.unique().drop_nulls().to_list()
    }
    if all(form == category for form, category in category_of.items()):
        return text
    return text.replace_strict(category_of, default=None, return_dtype=pl.String)
