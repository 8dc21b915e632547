"""Splits one table among simulated parties, with columns as in a federation."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl

from opboost_ops.config.federation import Label
from opboost_ops.domain import Domain, DomainMap
from opboost_ops.errors import ConfigError
from opboost_ops.learning.metrics import Task
from opboost_ops.pipeline.inputs.model_columns import category_codes, encode_label
from opboost_ops.tables.columns import (
    TEXTS,
    holds_categories,
    numbers_rows,
    technical_columns,
    type_name,
)
from opboost_ops.tables.raw_values import category_texts, label_values

#: Maximum number of categories, the most frequent ones; all others form one more.
_CATEGORIES = 30
#: Text with more values than that, and than this share of the rows, is not categorical.
_FREE_SHARE = 0.1
#: A numeric label with more values than this is for regression.
_CLASSES = 20
#: Quantiles that serve as bounds, because the party may use its own data here.
_ENDS = (0.005, 0.995)


@dataclass(frozen=True, eq=False)
class Column:
    """A column of a simulated party.

    Attributes:
        raw: Unprotected input of the booster, float64, shape (n,).
        codes: Integers of the domain, or of categories from 0, shape (n,).
        categories: Number of categories; 0 for numbers.
    """

    raw: np.ndarray
    codes: np.ndarray
    categories: int


@dataclass(frozen=True, eq=False)
class SplitTable:
    """A table split between a label holder and other parties.

    Attributes:
        task: Learning task.
        label: Class indices or numbers, shape (n,).
        classes: Number of classes; 0 in regression.
        own: The label holder's columns by name.
        others: Columns of the other parties, by party and name.
        left_out: Reasons by columns that no party gets.
    """

    task: Task
    label: np.ndarray
    classes: int
    own: Mapping[str, Column]
    others: Mapping[str, Mapping[str, Column]]
    left_out: Mapping[str, str]


def split_table(
    table: pl.DataFrame,
    label: str,
    split: Mapping[str, Sequence[str]],
    domain: Domain,
    unusable: Mapping[str, str] | None = None,
) -> SplitTable:
    """Split a table among simulated parties.

    Args:
        table: The party's own table, shape (n, ...).
        label: Name of its label column.
        split: Columns by simulated party; the label holder has all others.
        domain: Domain of protected numbers.
        unusable: Reasons by columns that could not be read as features.

    Raises:
        ConfigError: Columns are missing, assigned twice, or unusable; lists all faults.
    """
    _require(table, label, split)
    labels = label_values(table.get_column(label))
    labels = labels.fill_nan(None) if labels.dtype.is_float() else labels
    rows = table.with_columns(labels).filter(pl.col(label).is_not_null())
    values = rows.get_column(label)
    task = _task(values)
    codes, classes = encode_label(values, Label(column=label, task=task), None)
    assigned = {name for names in split.values() for name in names}
    usable: dict[str, Column] = {}
    left_out = dict(unusable or {})
    technical = technical_columns(table)
    for name in rows.columns:
        if name == label:
            continue
        column = rows.get_column(name)
        if why := left_out.get(name) or technical.get(name) or _useless(column):
            left_out[name] = why
        else:
            usable[name] = _column(column, domain)
    if lost := sorted(assigned & set(left_out)):
        reasons = "; ".join(f"{name}: {left_out[name]}" for name in lost)
        raise ConfigError(
            f"--split names columns that no model can use: {reasons}.", "Remove them."
        )
    return SplitTable(
        task=task,
        label=codes,
        classes=len(classes),
        own={name: column for name, column in usable.items() if name not in assigned},
        others={party: {name: usable[name] for name in names} for party, names in split.items()},
        left_out=left_out,
    )


def _require(table: pl.DataFrame, label: str, split: Mapping[str, Sequence[str]]) -> None:
    names = [name for columns in split.values() for name in columns]
    faults = [f"the table has no column {n}" for n in (label, *names) if n not in table.columns]
    faults += [f"{n} is assigned twice" for n in sorted(set(names)) if names.count(n) > 1]
    faults += [f"{label} is the label, which stays with its holder" for n in names if n == label]
    faults += [f"{party} gets no column" for party, columns in split.items() if not columns]
    if not split:
        faults.append("--split names no party")
    if faults:
        raise ConfigError(
            f"This table cannot be split like this: {'; '.join(dict.fromkeys(faults))}.",
            f"Its columns are {', '.join(table.columns)}.",
        )


def _task(values: pl.Series) -> Task:
    if not holds_categories(values.dtype):
        raise ConfigError(
            f"The label {values.name} is of type {type_name(values.dtype)}, without classes.",
            "Name another column.",
        )
    if values.n_unique() < 2:
        raise ConfigError(f"The label {values.name} has a single value.", "Name another column.")
    if values.n_unique() == 2:
        return "binary"
    many = values.dtype.is_numeric() and values.n_unique() > _CLASSES
    return "regression" if many else "multiclass"


def _useless(column: pl.Series) -> str:
    """Return why a column is left out; empty if it is not."""
    kind = column.dtype
    if not holds_categories(kind) and kind != pl.Duration:
        return f"a column of type {type_name(kind)} is not a feature"
    distinct = column.drop_nulls().n_unique()
    if distinct == 0:
        return "it is empty"
    if distinct == 1:
        return "it has a single value"
    many = distinct > _CATEGORIES and distinct > _FREE_SHARE * len(column)
    if column.dtype in TEXTS and many:
        return "it is an ID or free text"
    return "it numbers the rows" if numbers_rows(column) else ""


def _column(column: pl.Series, domain: Domain) -> Column:
    if column.dtype in TEXTS:
        text = category_texts(column).fill_null("")
        counts = text.value_counts(sort=True).get_column(column.name).to_list()
        categories = sorted(counts[:_CATEGORIES])
        codes = category_codes(text, categories)
        # All other values are one more category.
        whole = np.where(np.isnan(codes), len(categories), codes)
        return Column(whole, whole.astype(np.int64), len(categories) + (len(counts) > _CATEGORIES))
    kind = column.dtype
    numbers = column.to_physical() if kind.is_temporal() else column
    raw = numbers.cast(pl.Float64).fill_null(float("nan")).to_numpy().copy()
    raw[~np.isfinite(raw)] = np.nan
    present = raw[np.isfinite(raw)]
    low, high = (float(end) for end in np.quantile(present, _ENDS))
    if low == high:
        low, high = float(present.min()), float(present.max())
    filled = np.where(np.isfinite(raw), raw, np.median(present))
    return Column(raw, DomainMap(domain, (low, high), "linear").encode(filled), 0)
