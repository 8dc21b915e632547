"""Step: opened rows, own features and labels -> the training frame."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

from opboost_ops.config.feature import Feature, Fill, canonical
from opboost_ops.config.federation import Federation, Label
from opboost_ops.errors import ContractError
from opboost_ops.exchange.files import narrow_integers
from opboost_ops.learning.boosters.trainer import Frame
from opboost_ops.learning.registry.importance import RawColumn
from opboost_ops.pipeline.inputs import raw_table
from opboost_ops.pipeline.inputs.common_rows import CommonRows
from opboost_ops.pipeline.inputs.holdout import (
    WEIGHT,
    require_labels,
    require_moderate,
    weights_in,
    weights_of,
)
from opboost_ops.pipeline.stage import Context, Outcome
from opboost_ops.pipeline.steps.open_rows import opened_table
from opboost_ops.tables.raw_values import class_values, require_plausible
from opboost_ops.tables.spill.arrays import slices
from opboost_ops.tables.spill.tables import join_blocks

LABEL = "label"

#: Up to this many rows a dict lookup is faster: a single row is scored in a fraction of 1 ms.
_FEW = 8

#: Name of the table of held-out rows, with ranks in other parties' columns.
HOLDOUT_RANKS = "holdout_ranks"

#: With possibly missing values: the highest rank of each column in the training rows.
HIGHEST = "highest"
#: Document with the number of labels outside their declared bounds, for the party's own people.
CLIPPED = "clipped_labels"


def assemble(context: Context) -> Outcome:
    """Join own features and labels with the other parties' ranks by row order.

    Raises:
        ContractError: The label column does not match its declaration.
    """
    raw_table.require_unchanged(context)
    positions = narrow_integers(context.home.table("alignment"), "position")
    train = context.home.json("alignment")["train"]
    party, rules = context.declared, context.federation.training
    assert party.label is not None

    rows = CommonRows(context, positions)
    categories = _categories(context, rows, train)
    columns: dict[str, np.ndarray] = {}
    if party.features:
        columns = rows.columns(
            list(party.features),
            lambda frame: own_columns(context.federation, frame, categories),
            {f"{context.party}.{name}": np.float64 for name in party.features},
        )
    label, classes = _labels(rows, party.label, train)
    require_labels(rules, (label[:train][some] for some in slices(train)))
    weight = _weights(context, rows, train)
    holders = context.federation.feature_holders
    opened = {holder: context.home.table(opened_table(holder)) for holder in holders}
    ranked = [f"{h}.{column.name}" for h in holders for column in context.columns(h)]
    facts = {
        "names": [*columns, *ranked],
        "ranked": ranked,
        "categories": categories,
        "task": party.label.task,
        "classes": classes,
        "thresholds": _thresholds(context) if rules.trainer == "dpboost" else {},
    }
    if context.federation.keeps_all:
        facts[HIGHEST] = {
            f"{holder}.{name}": pc.max(table.column(name).slice(0, train)).as_py() or 0
            for holder, table in opened.items()
            for name in table.column_names
        }

    def side(rows: slice, more: Mapping[str, np.ndarray]) -> Iterator[pa.Table]:
        own = {name: values[rows] for name, values in columns.items()}
        others = {
            holder: table.slice(rows.start, len(label[rows])) for holder, table in opened.items()
        }
        return join_blocks(own, others, {LABEL: label[rows], **more})

    return Outcome(
        tables={
            "frame": side(slice(0, train), {} if weight is None else {WEIGHT: weight}),
            # Ranks: `materialise` replaces them by values on the same side of every threshold.
            HOLDOUT_RANKS: side(slice(train, len(label)), {}),
        },
        documents={"frame": facts},
        summary={"rows": train, "features": len(facts["names"]), "ranked": len(ranked)},
    )


def _categories(context: Context, rows: CommonRows, train: int) -> dict[str, list[str]]:
    """Return the categories of own nominal features that a model uses, by full name."""
    if context.federation.training.trainer != "dpboost":
        return _present(context, rows, train)
    # The categories that are present would be a fact about single rows.
    return {
        f"{context.party}.{name}": list(feature.categories or ())
        for name, feature in context.declared.features.items()
        if feature.type == "nominal"
    }


def _present(context: Context, rows: CommonRows, train: int) -> dict[str, list[str]]:
    """Return the categories of own nominal features in the training rows, by full name."""
    features = context.declared.features
    nominal = {name: feature for name, feature in features.items() if feature.type == "nominal"}
    categories: dict[str, set[str]] = {f"{context.party}.{name}": set() for name in nominal}
    if not nominal:
        return {}
    for places, frame in rows.blocks(list(nominal)):
        training = frame.filter(pl.Series(places < train))
        for name, feature in nominal.items():
            text = _text(training.get_column(name), feature).drop_nulls().unique()
            categories[f"{context.party}.{name}"].update(text.to_list())
    return {name: sorted(present) for name, present in categories.items()}


def _labels(rows: CommonRows, label: Label, train: int) -> tuple[np.ndarray, list[str | int]]:
    """Encode labels as `encode_label` does for the whole column, with one block in memory."""
    classes: list[str | int] = []
    if label.task == "regression":

        def numbers(frame: pl.DataFrame) -> dict[str, np.ndarray]:
            return {LABEL: encode_label(frame.get_column(label.column), label, None)[0]}
    else:
        values = pl.Series()
        for number, (_, frame) in enumerate(rows.blocks([label.column])):
            each = frame.get_column(label.column)
            # Make values unique at once: the few results keep the memory of their whole block.
            values = (pl.concat([values, each]) if number else each).unique()
        codes, classes = encode_label(values, label, None)
        of_values = pl.Series(codes)

        def numbers(frame: pl.DataFrame) -> dict[str, np.ndarray]:
            column = frame.get_column(label.column)
            column = column.replace_strict(values, of_values, return_dtype=pl.Float64)
            return {LABEL: column.to_numpy()}

    numbers_of_rows = rows.columns([label.column], numbers, {LABEL: np.float64})[LABEL]
    if label.task != "regression":
        present: set[float] = set()
        for some in slices(train):
            present.update(np.unique(numbers_of_rows[some]).tolist())
        _require_classes(label, classes, len(present))
    return numbers_of_rows, classes


def _weights(context: Context, rows: CommonRows, count: int) -> np.ndarray | None:
    """Return the weights of the first rows; None if all rows have the same weight."""
    if (name := context.federation.training.weight_column) is None:
        return None

    def numbers(frame: pl.DataFrame) -> dict[str, np.ndarray]:
        return {WEIGHT: weights_in(frame.get_column(name))}

    weights = rows.columns([name], numbers, {WEIGHT: np.float64})[WEIGHT]
    return weights_of(name, weights[:count], context.home.scratch)


def _thresholds(context: Context) -> dict[str, list[float]]:
    """Return the declared candidate thresholds of all ordered features, by full name."""
    domain = context.federation.domain.to_domain()
    thresholds: dict[str, list[float]] = {}
    for name, feature in context.declared.features.items():
        if feature.type == "ordinal":
            count = len(feature.categories or ())
            thresholds[f"{context.party}.{name}"] = [i + 0.5 for i in range(count - 1)]
        elif feature.type == "numeric":
            edges = feature.domain_map(domain).boundaries()
            thresholds[f"{context.party}.{name}"] = list(edges)
    for holder in context.federation.feature_holders:
        for column in context.columns(holder):
            ranks = range(1, len(column.mechanism.channel(column.domain).outputs))
            thresholds[f"{holder}.{column.name}"] = [rank + 0.5 for rank in ranks]
    return thresholds


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
        return category_codes(_text(values, feature), categories)
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


def _text(values: pl.Series, feature: Feature) -> pl.Series:
    text = values.cast(pl.String)
    if isinstance(feature.missing, Fill):
        text = text.fill_null(str(feature.missing.fill))
    return text


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


def category_codes(text: pl.Series, categories: Sequence[str]) -> np.ndarray:
    """Return codes from 0, NaN for a missing or unknown category, float64, shape (n,)."""
    order: dict[str | None, float] = {category: float(i) for i, category in enumerate(categories)}
    if len(text) <= _FEW:
        return np.array([order.get(category, np.nan) for category in text.to_list()])
    return text.replace_strict(order, default=None, return_dtype=pl.Float64).to_numpy()


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
    _require_classes(label, classes, codes[:train].n_unique())
    return codes.to_numpy(), classes


def _require_classes(label: Label, classes: list[str | int], present: int) -> None:
    if present < 2 or (label.task == "binary" and len(classes) != 2):
        raise ContractError(
            f"The label {label.column} has {present} of {len(classes)} classes in the training "
            f"rows; {label.task} needs {'two' if label.task == 'binary' else 'at least two'}.",
            "Check the table, or declare another task.",
        )
