"""Reading of a party's own Parquet table as declared; error messages contain no cell values."""

import hashlib
import logging
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

import numpy as np
import polars as pl
import pyarrow as pa

from opboost_ops.config.columns import missing_name
from opboost_ops.config.feature import Feature, Fill
from opboost_ops.config.federation import Federation, Label
from opboost_ops.errors import ContractError
from opboost_ops.exchange.files import smallest_integers
from opboost_ops.exchange.party_state import forgotten_of
from opboost_ops.pipeline.stage import PartyContext
from opboost_ops.privacy.people import ForgottenPeople
from opboost_ops.tables.columns import (
    TEXTS,
    common_type,
    holds_categories,
    holds_numbers,
    match_names,
    require_readable,
    type_name,
)
from opboost_ops.tables.parquet import digest_of, files_of, schema_of, type_conflict, unreadable
from opboost_ops.tables.raw_values import declared_series, declared_values, label_values

_TEXT = (pl.String, pl.Categorical)

_LOG = logging.getLogger("opboost_ops")


def declared_columns(context: PartyContext) -> list[str]:
    """Return the columns that the federation declares for this party.

    They are the ID, the features, and for training the label and the weights.
    """
    federation = context.federation
    party = federation.parties[context.party]
    columns = [federation.id.column, *party.features]
    if party.label and context.purpose == "train":
        columns.append(party.label.column)
        if federation.training.weight_column is not None:
            columns.append(federation.training.weight_column)
    return list(dict.fromkeys(columns))


def raw_names(context: PartyContext, wanted: Sequence[str]) -> dict[str, str]:
    """Return the names of declared columns in the party's own table.

    No other function translates names: the rest uses declared names, so that no raw name appears
    in a report or an error.

    Args:
        context: The party's context.
        wanted: Declared names.

    Returns:
        Raw names by declared name, in the given order.

    Raises:
        ContractError: Two declared names are one raw column.
    """
    identity = context.federation.id.column
    names = {name: context.policy.raw_column(name, identity) for name in wanted}
    all_declared = {*wanted, *declared_columns(context)}
    by_raw: dict[str, str] = {}
    for name in sorted(all_declared):
        raw = context.policy.raw_column(name, identity)
        if (other := by_raw.setdefault(raw, name)) != name:
            raise ContractError(
                f"{other} and {name} name the same column of the table of {context.party}.",
                "One column is one feature: check column, columns and id_column in policy.yaml.",
            )
    return names


def files(context: PartyContext) -> tuple[Path, ...]:
    """Return the files that make up the table, sorted by name.

    Args:
        context: The party's context.

    Raises:
        ContractError: There are none.
    """
    paths: tuple[Path, ...] = ()
    with suppress(OSError):
        paths = files_of(context.table_path)
    if not paths:
        raise unreadable(context.party)
    return paths


def fingerprint(context: PartyContext) -> str:
    """Return the SHA-256 of the table's files and of the forgotten people; it stays at home.

    Args:
        context: The party's context.

    Raises:
        ContractError: A file cannot be read.
    """
    paths = files(context)
    try:
        digest = digest_of(paths)
        gone = sorted(forgotten_of(context.site).people)
        if gone:
            digest = hashlib.sha256(digest + repr(gone).encode()).digest()
        return digest.hex()
    except OSError:
        pass
    raise unreadable(context.party)


def require_unchanged(context: PartyContext) -> None:
    """Require that the table is the one that was checked.

    Raises:
        ContractError: It was rewritten.
    """
    # A feature holder reads its own copy instead.
    if "desensitize" in context.stages:
        return
    if fingerprint(context) != context.home.json("table")["sha256"]:
        raise changed(context)


def changed(context: PartyContext) -> ContractError:
    """Return the error for a table that was rewritten during the run."""
    return ContractError(
        f"The table of {context.party} was rewritten while the run was using it.",
        "Trigger a new run when the job that writes it has ended.",
    )


def as_declared(context: PartyContext, frame: pl.DataFrame) -> pl.DataFrame:
    """Apply the declarations of features and label to the party's raw columns.

    Args:
        context: The party's context.
        frame: Raw columns by declared name.
    """
    label = context.declared.label
    if label is not None and label.column in frame.columns:
        frame = frame.with_columns(label_values(frame.get_column(label.column)))
    return declared_values(frame, context.declared.features)


def without_forgotten(
    context: PartyContext, forgotten: ForgottenPeople, frame: pl.DataFrame
) -> pl.DataFrame:
    """Return the rows of people who are not forgotten.

    If an ID is missing, all rows are returned; a check reports the missing ID.

    Args:
        context: The party's context.
        forgotten: The party's list of forgotten people.
        frame: Raw columns, with the IDs if the list is not empty.
    """
    identity = context.federation.id
    if len(forgotten) and not frame.get_column(identity.column).null_count():
        ids = frame.get_column(identity.column).to_arrow()
        frame = frame.filter(pl.Series(forgotten.keep(ids, identity.type)))
    return frame


def numbers(values: pl.Series, feature: Feature) -> np.ndarray:
    """Return a column as float64 with fills applied and NaN for missing values.

    Categories become their position in the declaration.

    Args:
        values: The raw column, shape (n,).
        feature: The feature's declaration.

    Raises:
        ContractError: A category is not declared.
    """
    values = declared_series(values, feature)
    if isinstance(feature.missing, Fill):
        if values.dtype.is_float():
            values = values.fill_nan(None)
        fill = feature.missing.fill
        values = values.cast(pl.Float64) if isinstance(fill, float | int) else values
        values = values.fill_null(fill)
    if feature.type != "numeric":
        order = {category: i for i, category in enumerate(feature.categories or ())}
        text = values.cast(pl.String)
        codes = text.replace_strict(order, default=None, return_dtype=pl.Float64)
        if codes.null_count() > text.null_count():
            raise ContractError(
                f"A feature of type {feature.type} holds categories that are not declared.",
                "Declare them all, map them by `mapping`, or name a `rest`.",
            )
        values = codes
    # Nulls become NaN.
    return values.cast(pl.Float64).to_numpy()


def finite_numbers(values: pl.Series, feature: Feature, party: str) -> np.ndarray:
    """Return a column for mapping onto the domain: `numbers` without missing values.

    Args:
        values: The raw column, shape (n,).
        feature: The feature's declaration.
        party: The feature's party.

    Raises:
        ContractError: A value is missing without a fill, or is infinite.
    """
    result = numbers(values, feature)
    if not np.isfinite(result).all():
        raise ContractError(
            f"{party}.{values.name} has missing or infinite values.",
            "Declare `missing: {fill: ...}` for it, or correct the table.",
        )
    return result


def require_types(frame: pl.DataFrame, party: str, features: Mapping[str, Feature]) -> None:
    """Require that columns have the declared types.

    Args:
        frame: Raw columns, including features.
        party: The features' party.
        features: Declarations by feature.

    Raises:
        ContractError: A numeric feature's column has no numbers, or another's no categories.
    """
    kinds = frame.schema  # Polars rebuilds the schema on each access.
    for name, feature in features.items():
        kind = kinds.get(name)
        if kind is None:
            continue
        # An all-null column has no type; a few new rows may well have one.
        numeric = holds_numbers(kind)
        dated = kind.is_temporal() or kind in _TEXT
        if feature.type == "numeric" and not numeric and not (feature.unit and dated):
            remedy = "Convert the column, or declare its type as ordinal or nominal."
            if kind in _TEXT:
                remedy += (
                    " One text makes a column of a CSV file a text: name those that stand for no "
                    "value under `missing` in site.yaml."
                )
            if kind.is_temporal():
                remedy = "Declare in which unit it is counted since 1970, for example unit: days."
            raise ContractError(
                f"{party}.{name} is declared numeric, and its column is of type {type_name(kind)}.",
                remedy,
            )
        if feature.type != "numeric" and not holds_categories(kind):
            raise ContractError(
                f"{party}.{name}: a column of type {type_name(kind)} holds no categories.",
                "Convert the column to strings.",
            )


def missing(values: pl.Series) -> np.ndarray:
    """Return which values of a raw column are missing, bool, shape (n,)."""
    gaps = values.is_null()
    if values.dtype.is_float():
        gaps = gaps | values.is_nan().fill_null(False)
    return gaps.to_numpy()


def schema(
    context: PartyContext, paths: Sequence[Path], wanted: Sequence[str], why: str
) -> dict[str, pl.DataType]:
    """Return the types of columns, which must be the same in all files of the table.

    Args:
        context: The party's context.
        paths: The files.
        wanted: Declared names of the columns.
        why: What needs the columns, for the error message.

    Returns:
        Types by declared name.

    Raises:
        ContractError: A file is not readable Parquet, lacks a column, has another type than the
            other files, or has 128-bit integers; or two declared names are one column.
    """
    raw = raw_names(context, wanted)
    schemas = [schema_of(path, context.party) for path in paths]
    names_by_file = [match_names(raw, list(schema)) for schema in schemas]
    missing = [c for c in wanted if not all(c in names for names in names_by_file)]
    if missing:
        raise ContractError(
            f"The table of {context.party} has no column {', '.join(missing)}, which {why}.",
            "Add it to the table, or to its aggregate where site.yaml has one; let policy.yaml say "
            "what it is called there; or remove it from the federation file.",
        )
    kinds = [
        {c: schema[names[c]] for c in wanted}
        for schema, names in zip(schemas, names_by_file, strict=True)
    ]
    types = {c: common_type([kind[c] for kind in kinds]) for c in wanted}
    if disagreed := [c for c, kind in types.items() if kind is None]:
        raise type_conflict(context.party, disagreed)
    # A 128-bit column makes all other columns of its file unreadable.
    declared = match_names(raw_names(context, declared_columns(context)), list(schemas[0]))
    require_readable(context.party, {c: schemas[0][name] for c, name in declared.items()})
    return {c: kind for c, kind in types.items() if kind is not None}


def require_declared(context: PartyContext, frame: pl.DataFrame) -> None:
    """Require that columns have the types that the federation file declares.

    Args:
        context: The party's context.
        frame: Raw columns.

    Raises:
        ContractError: The type of the ID, the label or a feature differs.
    """
    declared = context.federation.id
    ids = frame.schema.get(declared.column)
    if ids is not None:
        text = "string" if ids in _TEXT else type_name(ids)
        actual = "integer" if ids.is_integer() else text
        if actual != declared.type:
            raise ContractError(
                f"The IDs of {context.party} (column {declared.column}) are of type {actual}; "
                f"the federation file declares {declared.type}.",
                "All parties need the same type: convert this table's column.",
            )
    party = context.declared
    label = party.label if context.purpose == "train" else None
    kind = frame.schema.get(label.column) if label is not None else None
    if label is not None and label.task == "regression" and kind and not kind.is_numeric():
        raise ContractError(
            f"The label {label.column} is of type {type_name(kind)}; regression needs numbers.",
            "Declare another task, or convert the column.",
        )
    if label is not None and kind is not None:
        if not holds_categories(kind):
            raise ContractError(
                f"The label {label.column} is of type {type_name(kind)}, which holds no classes.",
                "Convert the column to numbers or strings.",
            )
        require_positive(context, label, kind)
    require_types(frame, context.party, party.features)


def empty(context: PartyContext) -> ContractError:
    """Return the error for a table without rows."""
    return ContractError(
        f"The table of {context.party} has no rows.", "Check the job that writes it."
    )


def domain_integers(federation: Federation, party: str, frame: pl.DataFrame) -> pa.Table:
    """Convert a feature holder's rows to integers of the declared domains.

    Args:
        federation: The federation as declared.
        party: The features' party.
        frame: Raw columns by feature.

    Returns:
        One column per feature (the category's position for nominal features) and per missing bit.
        Values outside the bounds are clipped.

    Raises:
        ContractError: A value is missing and no rule for missing values is declared.
    """
    domain = federation.domain.to_domain()
    columns: dict[str, pa.Array] = {}
    there = set(frame.columns)
    for name, feature in federation.parties[party].features.items():
        if name not in there:
            continue
        column = frame.get_column(name)
        values = finite_numbers(column, feature, party)
        if feature.type == "nominal":
            columns[name] = smallest_integers(values.astype(np.int64))
        else:
            columns[name] = smallest_integers(feature.domain_map(domain).encode(values))
        if feature.missing_bit is not None:
            bits = missing(column).astype(np.int64)
            columns[missing_name(name)] = smallest_integers(bits)
    return pa.table(columns)


def require_positive(context: PartyContext, label: Label, kind: pl.DataType) -> None:
    """Require a declared order of two text classes, which says which one is positive.

    In alphabetical order "no" comes after "default", which would invert the scores. A federation
    with a model keeps the order that this model was trained with.

    Args:
        context: The label holder's context, in a training run.
        label: The label's declaration.
        kind: The column's type.

    Raises:
        ContractError: The classes are text and undeclared, and there is no model yet.
    """
    if not _undeclared(label, kind):
        return
    if context.registry.versions():
        return
    raise ContractError(
        f"The label {label.column} holds text, and nothing says which of its two classes is "
        "positive.",
        f"Declare label.classes of {context.party} in federation.yaml: both, the positive one "
        "last.",
    )


def warn_undeclared(context: PartyContext, kind: pl.DataType | None) -> None:
    """Log a warning to the label holder's people if classes are ordered alphabetically.

    Args:
        context: The label holder's context, in a training run.
        kind: The label column's type.
    """
    label = context.declared.label
    if label is None or kind is None or not _undeclared(label, kind):
        return
    _LOG.warning(
        "%s: label.classes is not declared; of its two text classes the last in alphabetical order "
        "is the positive one, as before. Declare both, the positive one last.",
        context.party,
    )


def positive_of(task: str, classes: list[str | int] | tuple[str | int, ...]) -> str | int | None:
    """Return the positive class; None if the task is not binary.

    Args:
        task: The label's task.
        classes: The classes, in order.
    """
    return classes[1] if task == "binary" and len(classes) == 2 else None


def _undeclared(label: Label, kind: pl.DataType) -> bool:
    return label.task == "binary" and not label.classes and isinstance(kind, TEXTS)
