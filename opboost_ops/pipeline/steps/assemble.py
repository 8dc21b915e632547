"""Step: opened rows, own features and labels -> the training frame."""

from collections.abc import Iterator, Mapping

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

from opboost_ops.config.federation import Label
from opboost_ops.exchange.files import narrow_integers
from opboost_ops.pipeline.inputs import raw_table
from opboost_ops.pipeline.inputs.common_rows import CommonRows
from opboost_ops.pipeline.inputs.holdout import (
    WEIGHT,
    require_labels,
    weights_in,
    weights_of,
)
from opboost_ops.pipeline.inputs.model_columns import (
    LABEL,
    encode_label,
    feature_text,
    own_columns,
    require_classes,
)
from opboost_ops.pipeline.stage import Context, Outcome
from opboost_ops.pipeline.steps.open_rows import opened_table
from opboost_ops.tables.spill.arrays import slices
from opboost_ops.tables.spill.tables import join_blocks

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
            text = feature_text(training.get_column(name), feature).drop_nulls().unique()
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
        require_classes(label, classes, len(present))
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
