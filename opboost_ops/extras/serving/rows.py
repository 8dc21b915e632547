"""Rows that programs send, checked in the same way as a party's table, and their scores.

Errors name columns and counts, never a value.
"""

import math
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from numbers import Integral, Real
from typing import Any, Literal

import numpy as np
import polars as pl

from opboost_ops.config.feature import Feature
from opboost_ops.config.federation import Federation
from opboost_ops.errors import ContractError
from opboost_ops.pipeline.inputs import raw_table
from opboost_ops.tables.columns import type_name
from opboost_ops.tables.id_recipe import person_ids

#: State of a party's values for a person: released; released, but older than allowed; not in any
#: accepted run; the party does not have the person; the party has left.
State = Literal["current", "old", "unknown", "absent", "withdrawn"]

#: All states, so that arrays can refer to them by index.
STATES: tuple[State, ...] = ("current", "old", "unknown", "absent", "withdrawn")

#: Maximum of 64-bit floats.
_LARGEST: Any = sys.float_info.max

_DATES = (date, datetime, time, timedelta)


@dataclass(frozen=True)
class Partner:
    """Another party's contribution to a score.

    Attributes:
        state: State of its values.
        age_days: Age of its values; None if there are none.
        used: Whether the score uses them; otherwise they count as missing.
    """

    state: State
    age_days: float | None
    used: bool


@dataclass(frozen=True)
class Reason:
    """One feature's contribution to the raw score, its SHAP value."""

    party: str
    feature: str
    contribution: float


@dataclass(frozen=True)
class Reasons:
    """The largest contributions; with base and rest they add up to the raw score.

    Attributes:
        named: The largest contributions in decreasing order.
        base: The expected raw score.
        rest: Sum of all other contributions.
        raw_score: Sum of all parts: log odds, a raw class score or a number.
    """

    named: tuple[Reason, ...]
    base: float
    rest: float
    raw_score: float


@dataclass(frozen=True)
class Score:
    """The score of one row, identical to the bit to that of a batch with the same values.

    Attributes:
        version: The model version that made it.
        mode: Scoring mode.
        score: Probability of the positive or likeliest class, or a number; None if refused.
        decision: The class; None in regression.
        probabilities: Probabilities by class.
        uncalibrated: The model's score before calibration; None without calibration.
        interval: Interval of a number; None if none is declared.
        partners: The other parties' contributions; empty in mode ``local``.
        unseen: Own features with a category that no training row had; it counts as missing.
        refused: Reason why there is no score: ``forgotten``, ``old``, ``unknown`` or
            ``withdrawn``; empty if there is one.
        reasons: Reasons, if they were requested.
    """

    version: str
    mode: str
    score: float | None
    decision: str | int | None
    probabilities: Mapping[str, float]
    uncalibrated: float | None
    interval: tuple[float, float] | None
    partners: Mapping[str, Partner]
    unseen: tuple[str, ...]
    refused: str
    reasons: Reasons | None

    def document(self) -> dict[str, Any]:
        """Return the score as a JSON object."""
        return asdict(self)


def frame_of(
    rows: Sequence[Mapping[str, Any]], federation: Federation, names: Sequence[str]
) -> pl.DataFrame:
    """Convert rows to a table of the declared columns; others are left out.

    Args:
        rows: Values by declared name, including scalars of numpy and pandas; missing values are
            None, NaN, NA or NaT.
        federation: The federation with which the version scores.
        names: The columns that each row must have.

    Raises:
        ContractError: A column is missing, or has values that its declaration does not allow.
    """
    absent = [name for name in names if not all(name in row for row in rows)]
    if absent:
        raise ContractError(
            f"A row has no column {', '.join(absent)}.",
            "Send every declared column; write null for missing values.",
        )
    columns = []
    for name in names:
        feature = feature_of(federation, name)
        category = feature is not None and feature.type != "numeric"
        values = [plain_value(row[name], category) for row in rows]
        # A feature that is part of the ID keeps whole numbers, because IDs are not floats.
        if feature is None or name in federation.id.parts:
            columns.append(_ids(values, name, federation))
        else:
            columns.append(_column(values, name, feature))
    return pl.DataFrame(columns)


def with_ids(frame: pl.DataFrame, federation: Federation) -> pl.DataFrame:
    """Add the ID to rows, derived as in tables.

    Args:
        frame: Columns by declared name, including those that the ID is made of.
        federation: The federation with which the version scores.

    Raises:
        ContractError: A column has values without a canonical text.
    """
    identity = federation.id
    if not identity.is_made:
        return frame
    return frame.with_columns(
        person_ids({name: frame.get_column(name) for name in identity.parts}, identity)
    )


def require_rows(frame: pl.DataFrame, federation: Federation) -> None:
    """Check rows in the same way as a table of new rows.

    Args:
        frame: Columns by declared name.
        federation: The federation with which the version scores.

    Raises:
        ContractError: A type is not as declared, or an ID is missing.
    """
    identity, owner = federation.id, federation.label_holder
    kind = frame.schema[identity.column]
    text = "string" if kind in (pl.String, pl.Categorical) else type_name(kind)
    actual = "integer" if kind.is_integer() else text
    if actual != identity.type and kind != pl.Null:
        raise ContractError(
            f"The IDs (column {identity.column}) are of type {actual}; {identity.type} is declared."
        )
    ids = frame.get_column(identity.column)
    _refuse(ids, ids.null_count(), "no ID")
    raw_table.require_types(frame, owner, federation.parties[owner].features)


def require_values(values: pl.Series, feature: Feature) -> None:
    """Check the values of the label holder's own feature, as a run does.

    Args:
        values: Values in the form of the declaration.
        feature: The declaration.

    Raises:
        ContractError: A required value is missing, or a value is infinite or undeclared.
    """
    if feature.missing == "forbid":
        _refuse(values, int(raw_table.missing(values).sum()), "no value, which is required")
    if values.dtype.is_float():
        _refuse(values, int(values.is_infinite().sum()), "an infinite value")
    if feature.type != "numeric" and feature.categories:
        unknown = ~values.cast(pl.String).is_in(list(feature.categories)).fill_null(True)
        _refuse(values, int(unknown.sum()), "a category that is not declared")


def feature_of(federation: Federation, name: str) -> Feature | None:
    """Return the declaration of a column; None for a column of the ID.

    Args:
        federation: The federation with which the version scores.
        name: The column: an own feature, or ``party.feature``.
    """
    owner = federation.label_holder
    if name in federation.parties[owner].features:
        return federation.parties[owner].features[name]
    if name in federation.id.parts:
        return None
    party, _, feature = name.partition(".")
    return federation.parties[party].features[feature]


def plain_value(value: Any, category: bool = False) -> Any:
    """Convert a scalar of numpy or pandas to a Python value; None for missing values.

    Args:
        value: The value.
        category: Whether it is a category, which is compared by its text.
    """
    if type(value).__name__ in ("NAType", "NaTType"):
        return None
    if isinstance(value, np.datetime64 | np.timedelta64):
        value = value.astype(f"{value.dtype.kind}8[us]").item()
    elif category and isinstance(value, np.float16 | np.float32):
        # Use the same text as columns of this type: 0.1 without further digits.
        value = float(str(value))
    elif isinstance(value, np.generic):
        value = value.item()
    elif isinstance(value, datetime) and hasattr(value, "to_pydatetime"):
        value = value.to_pydatetime(warn=False)
    elif isinstance(value, timedelta) and hasattr(value, "to_pytimedelta"):
        value = value.to_pytimedelta()
    if isinstance(value, float | Decimal):
        return None if math.isnan(value) else value
    return value


def _refuse(values: pl.Series, count: int, what: str) -> None:
    if count:
        where = "" if len(values) == 1 else f" in {count} of {len(values)} rows"
        raise ContractError(
            f"{values.name} has {what}{where}.", "Correct the rows, and send them again."
        )


def _ids(values: Sequence[Any], name: str, federation: Federation) -> pl.Series:
    kind = federation.id.type
    if federation.id.is_made:
        return _series_of_one_type(values, name)
    if kind == "string":
        return _series_of(values, name, pl.String, lambda v: isinstance(v, str), "a string")
    return _series_of(values, name, pl.Int64, _is_whole, "a whole number")


def _column(values: Sequence[Any], name: str, feature: Feature) -> pl.Series:
    if feature.type == "numeric":
        if feature.unit is not None and any(isinstance(v, (str, *_DATES)) for v in values):
            return _series_of_one_type(values, name)
        # Also whole numbers, because runs read numeric columns as 64-bit floats.
        plain = [float(v) if _is_number(v) else v for v in values]
        return _series_of(plain, name, pl.Float64, lambda v: isinstance(v, float), "a number")
    return _series_of_one_type(values, name)


def _is_number(value: Any) -> bool:
    return isinstance(value, Real | Decimal) and bool(abs(value) <= _LARGEST)


def _is_whole(value: Any) -> bool:
    whole = isinstance(value, Integral) and not isinstance(value, bool)
    return whole and -(2**63) <= value < 2**63


def _series_of(
    values: Sequence[Any], name: str, kind: Any, takes: Callable[[Any], bool], needed: str
) -> pl.Series:
    if all(value is None or takes(value) for value in values):
        # A lone surrogate is not valid text.
        with suppress(UnicodeEncodeError):
            return pl.Series(name, values, dtype=kind)
    raise ContractError(
        f"{name} has a value that is not {needed}.",
        "Send numbers without quotes and strings with quotes; write null for missing values.",
    )


def _series_of_one_type(values: Sequence[Any], name: str) -> pl.Series:
    """Return categories or dates of one type, which polars infers."""
    kinds = {type(value) for value in values if value is not None}
    if len(kinds) > 1 or not all(
        issubclass(k, str | Integral | float | Decimal | date | time | timedelta) for k in kinds
    ):
        raise ContractError(
            f"{name} has values of several types, or of a type that is not allowed.",
            "Send all of them as strings.",
        )
    try:
        return pl.Series(name, values)
    except (TypeError, OverflowError, UnicodeEncodeError, pl.exceptions.PolarsError):
        pass
    raise ContractError(
        f"{name} has a number that is too large, or a string that is not valid Unicode.",
        "Send it as a valid string.",
    )
