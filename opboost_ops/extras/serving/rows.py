"""Rows as programs hand them in, checked as a party's table is, and the answers that they get.

What a table's check would refuse is refused here too, by column and count: no value is shown.
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

#: What became of a party's values of a person: as released; released and older than declared; in
#: no accepted run; the party lacks the person; the party has left.
State = Literal["current", "old", "unknown", "absent", "withdrawn"]

#: All of them, so that an array of numbers names them.
STATES: tuple[State, ...] = ("current", "old", "unknown", "absent", "withdrawn")

#: Larger whole numbers are no 64-bit float.
_LARGEST: Any = sys.float_info.max

_DATES = (date, datetime, time, timedelta)


@dataclass(frozen=True)
class Partner:
    """Another party's part in a score.

    Attributes:
        state: What became of its values.
        age_days: How old they are; None where there are none.
        used: Whether the score rests on them; otherwise they count as missing.
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
        named: The largest, largest first.
        base: The expected raw score.
        rest: What all other features contribute.
        raw_score: The sum of all: log odds, a raw class score or the number's own scale.
    """

    named: tuple[Reason, ...]
    base: float
    rest: float
    raw_score: float


@dataclass(frozen=True)
class Score:
    """The score of one row, to the bit that of a batch of the same values.

    Attributes:
        version: The one model version that made it.
        mode: Of scoring.
        score: The positive class's probability, the likeliest class's, or a number; None where the
            row is refused.
        decision: The class; None in regression.
        probabilities: By class.
        uncalibrated: The model's own score, where scores are calibrated.
        interval: Of a number, where one is declared.
        partners: By other party; empty in mode ``local``.
        unseen: Own features whose category no training row had: it counts as missing.
        refused: Why there is no score: ``forgotten``, ``old``, ``unknown`` or ``withdrawn``; empty
            if there is.
        reasons: Where they were asked for.
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
        """As a JSON object."""
        return asdict(self)


def frame_of(
    rows: Sequence[Mapping[str, Any]], federation: Federation, names: Sequence[str]
) -> pl.DataFrame:
    """Rows as a table of their declared columns; others are left out.

    Args:
        rows: By declared name, also scalars of numpy and pandas; a missing value is None or one
            of their words for it.
        federation: As the version is scored.
        names: The columns that each row must have.

    Raises:
        ContractError: A column is not there, or holds what its declaration does not take.
    """
    absent = [name for name in names if not all(name in row for row in rows)]
    if absent:
        raise ContractError(
            f"A row lacks {', '.join(absent)}.",
            "Send every declared column; null stands for a missing value.",
        )
    columns = []
    for name in names:
        feature = feature_of(federation, name)
        category = feature is not None and feature.type != "numeric"
        values = [plain_value(row[name], category) for row in rows]
        # A column of the ID that is a feature, too, keeps its whole numbers: IDs are no floats.
        if feature is None or name in federation.id.parts:
            columns.append(_ids(values, name, federation))
        else:
            columns.append(_column(values, name, feature))
    return pl.DataFrame(columns)


def with_ids(frame: pl.DataFrame, federation: Federation) -> pl.DataFrame:
    """Rows with their ID, made as that of a table.

    Args:
        frame: Columns by declared name, those that the ID is made of among them.
        federation: As the version is scored.

    Raises:
        ContractError: A column holds what has no one text.
    """
    identity = federation.id
    if not identity.is_made:
        return frame
    return frame.with_columns(
        person_ids({name: frame.get_column(name) for name in identity.parts}, identity)
    )


def require_rows(frame: pl.DataFrame, federation: Federation) -> None:
    """Refuse what the check of a table of new rows refuses of single rows.

    Args:
        frame: Columns by declared name.
        federation: As the version is scored.

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
    """Refuse values of the label holder's own feature that a run refuses.

    Args:
        values: As the declaration takes them.
        feature: The declaration.

    Raises:
        ContractError: One is missing that is needed, infinite, or no declared category.
    """
    if feature.missing == "forbid":
        _refuse(values, int(raw_table.missing(values).sum()), "no value, which is needed")
    if values.dtype.is_float():
        _refuse(values, int(values.is_infinite().sum()), "an infinite value")
    if feature.type != "numeric" and feature.categories:
        unknown = ~values.cast(pl.String).is_in(list(feature.categories)).fill_null(True)
        _refuse(values, int(unknown.sum()), "a category that is not declared")


def feature_of(federation: Federation, name: str) -> Feature | None:
    """The declaration of a column: an own feature, or ``party.feature``; None for one of the ID.

    Args:
        federation: As the version is scored.
        name: The column.
    """
    owner = federation.label_holder
    if name in federation.parties[owner].features:
        return federation.parties[owner].features[name]
    if name in federation.id.parts:
        return None
    party, _, feature = name.partition(".")
    return federation.parties[party].features[feature]


def plain_value(value: Any, category: bool = False) -> Any:
    """A value as Python has it, of a scalar of numpy or pandas; None for all kinds of gaps.

    Args:
        value: As a program has it.
        category: Whether it is one, whose text counts.
    """
    if type(value).__name__ in ("NAType", "NaTType"):
        return None
    if isinstance(value, np.datetime64 | np.timedelta64):
        value = value.astype(f"{value.dtype.kind}8[us]").item()
    elif category and isinstance(value, np.float16 | np.float32):
        # As the text of a column of them is: 0.1, and no further digits.
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
        of = "" if len(values) == 1 else f" in {count} of {len(values)} rows"
        raise ContractError(
            f"{values.name} has {what}{of}.", "Correct the rows, and send them again."
        )


def _ids(values: Sequence[Any], name: str, federation: Federation) -> pl.Series:
    kind = federation.id.type
    if federation.id.is_made:
        return _series_of_one_type(values, name)
    if kind == "string":
        return _series_of(values, name, pl.String, lambda v: isinstance(v, str), "a text")
    return _series_of(values, name, pl.Int64, _is_whole, "a whole number")


def _column(values: Sequence[Any], name: str, feature: Feature) -> pl.Series:
    if feature.type == "numeric":
        if feature.unit is not None and any(isinstance(v, (str, *_DATES)) for v in values):
            return _series_of_one_type(values, name)
        # Whole numbers too: a column of numbers is read as 64-bit floats before it is used.
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
        # Half a surrogate pair is no text.
        with suppress(UnicodeEncodeError):
            return pl.Series(name, values, dtype=kind)
    raise ContractError(
        f"{name} holds something else than {needed}.",
        "Send numbers without quotes, and texts as texts; null stands for a missing value.",
    )


def _series_of_one_type(values: Sequence[Any], name: str) -> pl.Series:
    """Categories or dates: all of one type, which polars finds."""
    kinds = {type(value) for value in values if value is not None}
    if len(kinds) > 1 or not all(
        issubclass(k, str | Integral | float | Decimal | date | time | timedelta) for k in kinds
    ):
        raise ContractError(
            f"{name} holds values of several types, or of one that is not a category.",
            "Send all of them as texts.",
        )
    try:
        return pl.Series(name, values)
    except (TypeError, OverflowError, UnicodeEncodeError, pl.exceptions.PolarsError):
        pass
    raise ContractError(
        f"{name} holds a number that is too large, or a text that is no Unicode.",
        "Send it as a text in Unicode.",
    )
