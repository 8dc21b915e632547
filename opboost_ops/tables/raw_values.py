"""Raw cells as their declaration takes them: dates as numbers, categories by their public names."""

import math
from collections.abc import Mapping

import polars as pl

from opboost_ops.config.feature import Feature, canonical
from opboost_ops.errors import ContractError
from opboost_ops.tables.categories import category_texts
from opboost_ops.tables.column_types import holds_categories
from opboost_ops.tables.dialect import moments, zoned

_TEXTS = (pl.String, pl.Categorical, pl.Enum)

#: Seconds from 1970-01-01 to the end of the last year of four digits.
_LATEST = 253_402_300_800.0


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
    if kind in _TEXTS:
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
