"""Columns of a model with their raw columns, and feature importance by SHAP values."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from opboost_ops.config.columns import EVERYONE, columns_of, shared_columns
from opboost_ops.config.feature import Feature
from opboost_ops.config.federation import Federation
from opboost_ops.config.schema import Record
from opboost_ops.config.training import Training
from opboost_ops.domain import DomainMap
from opboost_ops.learning.boosters.trainer import Frame, contributions, gains, model_of

#: Most rows for which SHAP values are computed.
_MAX_ROWS = 10_000

#: Processor seconds for SHAP values: the target, and the most if the target allows too few rows.
_TARGET_SECONDS, _MAX_SECONDS = 0.1, 3.0

#: Seconds of TreeSHAP per row, leaf and level of a tree. The number of rows follows from the model
#: and not from a clock, so that a retry writes the same card.
_SECONDS_PER_STEP = 26e-9
_SUFFICIENT_ROWS, _MIN_ROWS = 300, 32


@dataclass(frozen=True)
class RawColumn:
    """A column of a model, and its derivation from a raw column.

    Attributes:
        name: Name in the model.
        party: Holder of the feature; `EVERYONE` in horizontal learning.
        feature: Name of the feature.
        declared: Declaration of the feature.
        made: ``number``: the number, or the position of an ordinal category; ``code``: the position
            in ``categories``, missing for other categories; ``integer``: the domain value by
            ``mapping``; ``bit``: 1 for the category at position ``bit``; ``missing``: 1 if the
            value is missing.
        mapping: Map from numbers, or positions, to the domain.
        bit: Position of a bit's category in the declaration.
        categories: Categories in the label holder's training rows, in the order of their codes.
    """

    name: str
    party: str
    feature: str
    declared: Feature
    made: Literal["number", "code", "integer", "bit", "missing"]
    mapping: DomainMap | None = None
    bit: int | None = None
    categories: tuple[str, ...] | None = None

    @property
    def source(self) -> str:
        """Name of the raw column: ``party.feature``, or ``feature`` in horizontal learning."""
        return self.feature if self.party == EVERYONE else f"{self.party}.{self.feature}"


def raw_columns(federation: Federation, facts: Mapping[str, Any]) -> list[RawColumn]:
    """Return all columns of a version, in the model's order.

    Args:
        federation: The federation of the training.
        facts: Content of ``columns.json`` in the version.
    """
    shared = federation.learning == "horizontal"
    columns = _shared(federation) if shared else _of_parties(federation, facts["categories"])
    by_name = {column.name: column for column in columns}
    return [by_name[name] for name in facts["names"]]


def released_columns(federation: Federation) -> Iterator[RawColumn]:
    """Yield the columns that feature holders release, in the order of the federation file."""
    domain = federation.domain.to_domain()
    for party in federation.feature_holders:
        for column in columns_of(federation, party):
            feature = federation.parties[party].features[column.feature]
            of = (f"{party}.{column.name}", party, column.feature, feature)
            if column.bit is not None:
                yield RawColumn(*of, "bit", bit=column.bit)
            elif column.source != column.feature:
                yield RawColumn(*of, "missing")
            else:
                yield RawColumn(*of, "integer", feature.domain_map(domain))


class ImportanceLine(Record):
    """The importance of one feature.

    Attributes:
        party: Holder of the feature.
        feature: Name on the card; all bits of a nominal feature count as one feature, and a missing
            bit as a separate one.
        value: Mean absolute SHAP value on the raw score, over rows and classes.
        share: Share of the sum over all features; 0 if the model has no splits.
        gain: Total gain of its splits in training.
    """

    party: str
    feature: str
    value: float
    share: float
    gain: float


@dataclass(frozen=True)
class Importance:
    """The importance of all features, in descending order.

    Attributes:
        rows: Number of held-out rows in the mean.
        lines: One line per feature.
    """

    rows: int
    lines: tuple[ImportanceLine, ...]


def columns_by_feature(federation: Federation) -> dict[tuple[str, str], tuple[str, ...]]:
    """Return the model's columns by (party, feature), in declared order.

    Returns:
        Names ``<party>.<column>``, or ``<column>`` in horizontal learning. A feature holder's
        nominal feature has several. A missing bit has its own entry, as it is charged separately.
    """
    by_feature: dict[tuple[str, str], list[str]] = {}
    if federation.learning == "horizontal":
        for shared in shared_columns(federation):
            by_feature.setdefault((EVERYONE, shared.feature), []).append(shared.name)
        return {feature: tuple(columns) for feature, columns in by_feature.items()}
    for party, spec in federation.parties.items():
        if party in federation.feature_holders:
            for column in columns_of(federation, party):
                by_feature.setdefault((party, column.charge), []).append(f"{party}.{column.name}")
        else:
            by_feature |= {(party, name): [f"{party}.{name}"] for name in spec.features}
    return {feature: tuple(columns) for feature, columns in by_feature.items()}


def importance_of(federation: Federation, text: str, held_out: Frame) -> Importance:
    """Return the mean absolute SHAP value of each feature.

    It depends on the label holder's rows and on randomised values that the label holder already
    has, so the computation discloses nothing; publishing the result would.

    Args:
        federation: The federation of the training.
        text: The materialised model.
        held_out: All held-out rows, with domain values of other parties' features; only the rows of
            `rows_for` are used.
    """
    rows = rows_for(federation, text, len(held_out.matrix))
    parts = contributions(text, held_out.matrix[rows])
    total_gains = gains(text)
    at = {name: i for i, name in enumerate(held_out.names)}
    values: dict[tuple[str, str], float] = {}
    gain: dict[tuple[str, str], float] = {}
    for feature, names in columns_by_feature(federation).items():
        columns = [at[name] for name in names if name in at]
        # Add the contributions of a feature's bits before taking the absolute value.
        combined = np.abs(parts[:, :, columns].sum(axis=2))
        values[feature] = float(combined.mean()) if len(rows) else 0.0
        gain[feature] = float(total_gains[columns].sum())
    return Importance(len(rows), _lines(values, gain))


def rows_for(federation: Federation, text: str, rows: int) -> np.ndarray:
    """Return the positions of the held-out rows from which a model's importance is computed.

    Args:
        federation: The federation of the training.
        text: The materialised model.
        rows: Number of held-out rows.

    Returns:
        At most 10,000 evenly spaced positions, and fewer for a large model (see `row_cap`).
    """
    splits = sum(model_of(text).split_counts().values())
    count = min(rows, row_cap(federation.training, splits))
    return np.arange(count) * rows // max(count, 1)


def row_cap(training: Training, splits: int) -> int:
    """Return the greatest number of rows from which a model's importance is computed.

    Args:
        training: The declared training.
        splits: Number of splits of the model.
    """
    # A tree of s splits has s + 1 leaves. With several classes, there are more trees than declared.
    leaves = max(min(2 * splits, splits + training.trees), 1)
    row = _SECONDS_PER_STEP * leaves * training.depth
    enough = min(_SUFFICIENT_ROWS, int(_MAX_SECONDS / row))
    return min(_MAX_ROWS, max(_MIN_ROWS, enough, int(_TARGET_SECONDS / row)))


def _shared(federation: Federation) -> Iterator[RawColumn]:
    for column in shared_columns(federation):
        declared = federation.shared_features[column.feature]
        kind: Literal["number", "bit"] = "number" if column.bit is None else "bit"
        yield RawColumn(column.name, EVERYONE, column.feature, declared, kind, bit=column.bit)


def _of_parties(federation: Federation, categories: Mapping[str, list[str]]) -> Iterator[RawColumn]:
    owner = federation.label_holder
    for name, feature in federation.parties[owner].features.items():
        full = f"{owner}.{name}"
        if feature.type == "nominal":
            values = tuple(categories.get(full, ()))
            yield RawColumn(full, owner, name, feature, "code", categories=values)
        else:
            yield RawColumn(full, owner, name, feature, "number")
    yield from released_columns(federation)


def _lines(
    values: Mapping[tuple[str, str], float], gain: Mapping[tuple[str, str], float]
) -> tuple[ImportanceLine, ...]:
    total = sum(values.values()) or 1.0
    order = sorted(values, key=lambda feature: -values[feature])
    return tuple(
        ImportanceLine(
            party=party,
            feature=name,
            value=values[party, name],
            share=values[party, name] / total,
            gain=gain[party, name],
        )
        for party, name in order
    )
