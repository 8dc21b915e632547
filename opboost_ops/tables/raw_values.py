"""Raw cells as their declaration takes them: dates as numbers, categories in one text form."""

import math
from collections.abc import Mapping

import polars as pl

from opboost_ops.config.feature import Feature, canonical
from opboost_ops.config.federation import Label
from opboost_ops.errors import ContractError
from opboost_ops.tables.columns import TEXTS, holds_categories
from opboost_ops.tables.dialect import moments, zoned

#: Most classes that nobody has declared.
MOST_CLASSES = 100

#: Up to so many classes, any number of rows is enough.
FEW_CLASSES = 20

#: Fewest rows a class on average, where there are more.
_ROWS = 10

#: Seconds from 1970-01-01 to the end of the last year of four digits.
_LATEST = 253_402_300_800.0


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


def declared_values(frame: pl.DataFrame, features: Mapping[str, Feature]) -> pl.DataFrame:
    """A raw table's columns as their declarations take them; other columns stay.

    Args:
        frame: Raw columns by declared name.
        features: Declarations, of some of them.

    Raises:
        ContractError: As `declared_series`.
    """
    changed, there = [], set(frame.columns)
    for name, feature in features.items():
        if name in there:
            series = frame.get_column(name)
            if (declared := declared_series(series, feature)) is not series:
                changed.append(declared.alias(name))
    return frame.with_columns(changed) if changed else frame


def declared_series(values: pl.Series, feature: Feature) -> pl.Series:
    """A raw column as its declaration takes it; doing it twice changes nothing more.

    Args:
        values: Shape (n,).
        feature: Its declaration.

    Returns:
        Numbers of the declared unit since 1970-01-01 for dates and times (a duration's length), 64-
        bit floats for decimals, mapped categories; the same series where nothing is to be done.

    Raises:
        ContractError: A text that should be a date is none, or a number counts to none.
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
        # The instant itself: whatever the zone, it is counted from the same one.
        values = values.cast(pl.Datetime("us", kind.time_zone))
    else:
        values = values.cast(pl.Duration("us"))
    return values.to_physical().cast(pl.Float64) / (feature.seconds * 1e6)


def _require_counts(values: pl.Series, feature: Feature) -> None:
    """Refuse numbers that count no days or hours: 20240301, or seconds as days."""
    span = values.cast(pl.Float64).abs().fill_nan(None).max()
    if isinstance(span, float) and _LATEST < span * feature.seconds < math.inf:
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
