"""Raw columns as a model's inputs, and labels as numbers: in training, scoring and comparisons."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa

from opboost_ops.config.feature import Feature, Fill, canonical
from opboost_ops.config.federation import Federation, Label
from opboost_ops.errors import ContractError
from opboost_ops.learning.boosters.trainer import Frame
from opboost_ops.learning.registry.importance import RawColumn
from opboost_ops.pipeline.inputs import raw_table
from opboost_ops.pipeline.inputs.holdout import WEIGHT, require_moderate
from opboost_ops.tables.raw_values import class_values, require_plausible

#: Name of the label in a frame.
LABEL = "label"

#: Up to this many rows a dict lookup is faster: a single row is scored in a fraction of 1 ms.
_FEW = 8


def own_columns(
    federation: Federation, rows: pl.DataFrame, categories: Mapping[str, list[str]]
) -> dict[str, np.ndarray]:
    """Return the label holder's own features as model inputs.

    Args:
        federation: The federation as declared.
        rows: Rows of the label holder's raw table, shape (n, ...).
        categories: Categories of its nominal features, by full name; others become missing.

    Returns:
        Columns by full name, float64, shape (n,).
    """
    owner = federation.label_holder
    return {
        (full := f"{owner}.{name}"): own_column(
            rows.get_column(name), feature, categories.get(full, ())
        )
        for name, feature in federation.parties[owner].features.items()
    }


def own_column(values: pl.Series, feature: Feature, categories: Sequence[str]) -> np.ndarray:
    """Return one of the label holder's own features as a model input, float64, shape (n,).

    Args:
        values: The column with its declaration applied, shape (n,).
        feature: The feature's declaration.
        categories: Categories of a nominal feature; others become missing.
    """
    if feature.type == "nominal":
        return category_codes(feature_text(values, feature), categories)
    return raw_table.numbers(values, feature)


def model_columns(
    columns: Iterable[RawColumn],
    raw: Mapping[str, pl.Series],
    lacking: Mapping[str, np.ndarray] | None = None,
    encoded: bool = True,
) -> dict[str, np.ndarray]:
    """Derive a model's columns from raw ones as a run does, by full name, float64, shape (n,).

    Args:
        columns: The model's columns.
        raw: Raw columns with their declarations applied, by source, shape (n,).
        lacking: People missing from a party's table, by party, bool, shape (n,); their values
            become NaN.
        encoded: True to map other parties' numbers onto the domain, as in training.

    Raises:
        ContractError: A value to map onto the domain is missing or infinite.
    """
    by_name: dict[str, np.ndarray] = {}
    # Several columns may have the same source.
    numbers: dict[str, np.ndarray] = {}
    for column in columns:
        values, source = raw[column.source], column.source
        absent = None if lacking is None else lacking.get(column.party)
        if absent is not None:
            values = values.filter(pl.Series(~absent))
        if column.made in ("integer", "bit") and source not in numbers:
            numbers[source] = raw_table.finite_numbers(values, column.declared, column.party)
        if column.made == "missing":
            cells = raw_table.missing(values)
        elif column.made == "bit":
            cells = numbers[source] == column.bit
        elif column.mapping is not None:
            cells = column.mapping.encode(numbers[source]) if encoded else numbers[source]
        else:
            cells = own_column(values, column.declared, column.categories or ())
        if absent is None:
            by_name[column.name] = np.asarray(cells, np.float64)
        else:
            by_name[column.name] = np.full(len(absent), np.nan)
            by_name[column.name][~absent] = cells
    return by_name


def frame_of(table: pa.Table, facts: Mapping[str, Any], only: str = "") -> Frame:
    """Return the booster's frame.

    Args:
        table: A training or held-out frame.
        facts: Facts about its columns from `assemble`.
        only: Prefix of the names of columns to keep.
    """
    names = tuple(name for name in facts["names"] if name.startswith(only))
    ranked = set(facts["ranked"])
    matrix = np.empty((table.num_rows, len(names)), dtype=np.float64, order="F")
    for i, name in enumerate(names):
        matrix[:, i] = table.column(name).to_numpy()
    return Frame(
        names=names,
        matrix=matrix,
        categorical=tuple(name for name in names if name in facts["categories"]),
        ranked=tuple(name for name in names if name in ranked),
        thresholds={n: tuple(t) for n, t in facts.get("thresholds", {}).items()},
        categories={name: len(names_of) for name, names_of in facts["categories"].items()},
        weight=table.column(WEIGHT).to_numpy() if WEIGHT in table.column_names else None,
    )


def encode_label(
    values: pl.Series, label: Label, train: int | None
) -> tuple[np.ndarray, list[str | int]]:
    """Encode labels for the booster.

    Args:
        values: The label column in the common order.
        label: The label's declaration.
        train: Number of training rows, which come first and must have two classes; None if other
            parties have training rows too.

    Returns:
        Numbers or class indices, shape (n,), float64; and the classes in order.

    Raises:
        ContractError: A label is missing, undeclared or not a number, or there is only one class.
    """
    name = label.column
    if values.null_count() or (values.dtype.is_float() and values.is_nan().any()):
        raise ContractError(
            f"The label {name} has missing values.", "Leave out rows without a label."
        )
    if label.task == "regression":
        numbers = values.cast(pl.Float64).to_numpy()
        require_moderate(numbers, name)
        return numbers, []
    require_plausible(values, label)
    values = class_values(values)
    classes = list(label.classes) if label.classes else values.unique().sort().to_list()
    if {type(c) for c in classes} != {int if values.dtype.is_integer() else str}:
        classes = [str(c) for c in classes]
        values = values.cast(pl.String)
    order = {
        canonical(value) if isinstance(value, str) else value: float(i)
        for i, value in enumerate(classes)
    }
    codes = values.replace_strict(order, default=None, return_dtype=pl.Float64)
    if codes.null_count():
        raise ContractError(
            f"The label {name} holds classes that are not declared.", "Declare all its classes."
        )
    if train is None:
        return codes.to_numpy(), classes
    require_classes(label, classes, codes[:train].n_unique())
    return codes.to_numpy(), classes


def category_codes(text: pl.Series, categories: Sequence[str]) -> np.ndarray:
    """Return codes from 0, NaN for a missing or unknown category, float64, shape (n,)."""
    order: dict[str | None, float] = {category: float(i) for i, category in enumerate(categories)}
    if len(text) <= _FEW:
        return np.array([order.get(category, np.nan) for category in text.to_list()])
    return text.replace_strict(order, default=None, return_dtype=pl.Float64).to_numpy()


def require_classes(label: Label, classes: list[str | int], present: int) -> None:
    """Refuse training rows without enough classes.

    Args:
        label: The label's declaration.
        classes: Its classes.
        present: Number of classes in the training rows.

    Raises:
        ContractError: There is only one class, or a binary label has other than two.
    """
    if present < 2 or (label.task == "binary" and len(classes) != 2):
        raise ContractError(
            f"The label {label.column} has {present} of {len(classes)} classes in the training "
            f"rows; {label.task} needs {'two' if label.task == 'binary' else 'at least two'}.",
            "Check the table, or declare another task.",
        )


def feature_text(values: pl.Series, feature: Feature) -> pl.Series:
    """Return a nominal feature's values as text, with its declared fill, shape (n,)."""
    text = values.cast(pl.String)
    if isinstance(feature.missing, Fill):
        text = text.fill_null(str(feature.missing.fill))
    return text
