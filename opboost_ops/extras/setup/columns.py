"""Features and the label that `opboost init` derives from a table's columns."""

import math
import re
import shlex
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import polars as pl

from opboost_ops.config.agreement import MAX_STEP_LOSS, MAX_WHOLE_LOSS, STANDARD
from opboost_ops.config.feature import canonical
from opboost_ops.config.federation import LearningTask
from opboost_ops.config.schema import FEATURE_NAME
from opboost_ops.errors import ConfigError
from opboost_ops.tables.columns import holds_categories, technical_columns, type_name
from opboost_ops.tables.raw_values import class_count_problem, class_values, is_number, label_values

#: Names of columns that assign rows to parts of a split.
_SPLITS = {"is_test", "is_train", "istest", "istrain", "test", "train", "split", "fold", "holdout",
           "is_holdout", "set", "subset", "partition", "dataset", "sample_type"}  # fmt: skip

#: Text with more distinct values than this, or than half of the rows, is not categorical.
_MOST_CATEGORIES = 100

#: Labels of whole numbers with more distinct values are for regression by default.
_MOST_WHOLE = 10


@dataclass
class FirstColumns:
    """The features of one party.

    Attributes:
        features: Their entries in the federation file, by name.
        columns: Raw names of features with another name in the table.
        left_out: Reasons by raw name of columns that are left out.
        blank: Public entries that are still to be filled in, by feature.
        whole: Features of whole numbers, whose bounds determine their number of values.
    """

    features: dict[str, dict[str, Any]] = field(default_factory=dict)
    columns: dict[str, str] = field(default_factory=dict)
    left_out: dict[str, str] = field(default_factory=dict)
    blank: dict[str, tuple[str, ...]] = field(default_factory=dict)
    whole: set[str] = field(default_factory=set)


def first_columns(
    frame: pl.DataFrame,
    identity: str,
    label: str | None,
    epsilon: float | None,
    names: Mapping[str, str],
    unusable: Mapping[str, str],
) -> FirstColumns:
    """Derive features from the columns of a party's table.

    Args:
        frame: The table.
        identity: Raw name of its ID column.
        label: The label's column at the label holder, otherwise None.
        epsilon: Epsilon of every protected feature; None for `STANDARD`, and 1 for categories.
        names: Features by raw column that the party's policy already names.
        unusable: Reasons by columns that could not be read as features.
    """
    result = FirstColumns(left_out=dict(unusable))
    technical = technical_columns(frame.drop(identity, strict=False))
    for column in frame.columns:
        if column in (identity, label):
            continue
        values = frame.get_column(column)
        if why := unusable.get(column) or technical.get(column) or _left_out(values):
            result.left_out[column] = why
            continue
        name = names.get(column) or _name(column, {*result.features, identity, label or ""})
        result.features[name] = {"uuid": str(uuid.uuid4()), **_entry(values)}
        if values.dtype.is_integer():
            result.whole.add(name)
        if name != column:
            result.columns[name] = column
        if label is not None:
            # The booster handles missing values of the label holder.
            result.features[name]["missing"] = "keep"
            continue
        result.blank[name] = _protect(result.features[name], values, epsilon)
    result.blank = {name: blank for name, blank in result.blank.items() if blank}
    return result


def _left_out(values: pl.Series) -> str:
    """Return why a column is not a feature; empty if it is one."""
    kind = values.dtype
    if not holds_categories(kind) and kind != pl.Duration:
        return f"a column of type {type_name(kind)} is not a feature"
    present = values.drop_nulls()
    if kind.is_float():
        present = present.drop_nans()
    different = present.n_unique()
    if different == 0:
        return "it has no value"
    if different == 1:
        return "it has one value only"
    if values.name.strip().lower() in _SPLITS and different <= 10:
        return "it assigns rows to a test set: OpBoost holds rows out by a hash of their ID"
    text = not (kind.is_numeric() or kind.is_temporal() or kind == pl.Boolean)
    if text and different > min(_MOST_CATEGORIES, max(20, len(values) // 2)):
        return f"it is free text: {different:,} distinct values"
    return ""


def _name(column: str, taken: set[str]) -> str:
    """Return an unused feature name without whitespace, quotes, commas, colons and brackets."""
    name = re.sub(r"[\s\",:\[\]{}/\\=<]+", "_", column.strip()).strip("_")[:100] or "column"
    while name in taken or not re.match(FEATURE_NAME, name):
        name += "_"
    return name


def _entry(values: pl.Series) -> dict[str, Any]:
    kind = values.dtype
    if kind == pl.Boolean:
        return {"type": "boolean"}
    if kind.is_numeric():
        return {"type": "numeric"}
    if kind.is_temporal():
        dated = kind == pl.Date or isinstance(kind, pl.Datetime)
        return {"type": "numeric", "unit": "days" if dated else "hours"}
    return {"type": "nominal"}


def _protect(entry: dict[str, Any], values: pl.Series, epsilon: float | None) -> tuple[str, ...]:
    """Add the entries of a feature holder's feature, and return those that are blank."""
    blank: tuple[str, ...] = ()
    if entry["type"] == "numeric":
        entry["bounds"] = None
        blank = ("lower", "upper")
    elif entry["type"] == "nominal":
        entry["categories"] = None
        blank = ("categories",)
    if values.null_count() or (values.dtype.is_float() and values.is_nan().any()):
        blank = (*blank, "fill")
    if entry["type"] == "nominal":
        entry["mechanism"] = {"name": "unary", "epsilon": 1.0 if epsilon is None else epsilon}
    elif epsilon is not None:
        entry["mechanism"] = {"name": "global_map", "epsilon": epsilon}
    elif entry["type"] == "boolean":
        entry["mechanism"] = mechanism_of_few(2)
    else:
        entry["mechanism"] = dict(STANDARD)
    return blank


def mechanism_of_few(values: int) -> dict[str, Any]:
    """Return the mechanism of a column with few values, under the caps on both losses.

    Args:
        values: Number of values.
    """
    epsilon = min(MAX_STEP_LOSS, MAX_WHOLE_LOSS / (values - 1))
    return {"name": "geometric", "epsilon": math.floor(epsilon * 10_000) / 10_000}


def label_entry(
    values: pl.Series,
    positive: str | None,
    task: LearningTask | None,
    ask: Callable[[str, list[str]], str | None] | None,
) -> dict[str, Any]:
    """Return the label's entry in the offer, with the positive class last.

    Args:
        values: The label column, without missing values.
        positive: The positive one of two classes.
        task: Learning task; guessed from the values if None.
        ask: Asks a person for the positive class, by the label's name and classes.

    Raises:
        ConfigError: The task does not fit the column, or the positive class is unknown.
    """
    values = label_values(values)
    learnt = task or _guessed(values)
    _require_task(values, learnt)
    if learnt != "binary":
        if positive is not None:
            raise ConfigError(
                f"--positive is for two classes; {values.name} has {values.n_unique()}.",
                "Leave it out.",
            )
        return {"column": values.name, "task": learnt}
    return {
        "column": values.name,
        "task": "binary",
        "classes": _ordered(values, positive, ask),
    }


def _guessed(values: pl.Series) -> LearningTask:
    classes, kind = values.n_unique(), values.dtype
    if classes == 2:
        return "binary"
    if not kind.is_numeric():
        return "multiclass"
    whole = kind.is_integer() or bool((values == values.round()).all())
    return "multiclass" if whole and classes <= _MOST_WHOLE else "regression"


def _require_task(values: pl.Series, task: LearningTask) -> None:
    name, classes = values.name, values.n_unique()
    number = values.dtype.is_numeric()
    if task == "regression" and not number:
        text = values.dtype == pl.String and is_number(values)
        why = "is text, although its values are numbers" if text else "is not a number"
        raise ConfigError(
            f"The label {name} {why}: regression needs a column of numbers.",
            "Store it as a number column, or name another column by --label.",
        )
    if task == "binary" and classes != 2:
        raise ConfigError(
            f"The label {name} has {classes:,} values, but binary needs two.",
            "Pass --task multiclass or --task regression.",
        )
    if task == "multiclass" and (why := class_count_problem(values)):
        raise ConfigError(
            f"The label {name} {why}, which is too many.",
            "To predict a number, store it as a number column; otherwise group the classes, or "
            "name another column by --label.",
        )


def _ordered(
    values: pl.Series, positive: str | None, ask: Callable[[str, list[str]], str | None] | None
) -> list[Any]:
    """Return both classes, the positive one last."""
    whole = class_values(values)
    number = whole.dtype.is_integer()
    if values.dtype.is_numeric() and not number:
        raise ConfigError(
            f"The two values of the label {values.name} are not whole numbers, as classes must be.",
            "Store them as strings or as 0 and 1; or pass --task regression.",
        )
    classes = whole.unique().sort().to_list()
    if positive is None and not number:
        positive = ask(values.name, classes) if ask else None
    if positive is None and not number:
        raise ConfigError(
            f"The positive class of the label {values.name} is unknown: its classes are "
            f"{classes[0]} and {classes[1]}.",
            f"Pass --positive {shlex.quote(classes[1])}, or the other: scores are its probability.",
        )
    if positive is not None:
        positive = canonical(positive)
        if positive not in [str(value) for value in classes]:
            listed = " and ".join(map(str, classes))
            raise ConfigError(f"--positive {positive} is not one of the classes {listed}.")
        classes.sort(key=lambda value: str(value) == positive)
    return classes
