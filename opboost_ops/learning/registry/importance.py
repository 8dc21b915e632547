"""Columns of a model and their raw ones; importance by SHAP over the held-out rows."""

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

#: Most rows whose importance is computed.
_ROWS = 10_000

#: Processor seconds that importance takes; where so few are too few for some hundred rows, at most
#: these.
_BUDGET, _MOST = 0.1, 3.0

#: What TreeSHAP takes of them for a row, a leaf and a level of its tree. How many rows there are
#: follows from the model alone, never from a clock: a retry writes the same card.
_SECONDS_A_STEP = 26e-9
_ENOUGH_ROWS, _FEWEST_ROWS = 300, 32


@dataclass(frozen=True)
class RawColumn:
    """One column of a model.

    Attributes:
        name: As the model names it.
        party: Who holds the feature; `EVERYONE` in horizontal learning.
        feature: What it is made from.
        declared: The feature's declaration.
        made: ``number``: the number, or of an ordinal feature the category's position; ``code``:
            the category's place in ``categories``, missing where it is none of them; ``integer``:
            of the domain, by ``mapping``; ``bit``: 1 where the category is the one in the place
            ``bit``; ``missing``: 1 where the value is missing.
        mapping: From numbers, or positions, to the domain.
        bit: Position of a bit's category in the declaration.
        categories: Those that the label holder's training rows have, in the order of their codes.
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
        """The raw column: ``party.feature``, or in horizontal learning the feature."""
        return self.feature if self.party == EVERYONE else f"{self.party}.{self.feature}"


def raw_columns(federation: Federation, facts: Mapping[str, Any]) -> list[RawColumn]:
    """All columns of a version, in the model's order.

    Args:
        federation: As the version was trained.
        facts: Its ``columns.json``.
    """
    shared = federation.learning == "horizontal"
    columns = _shared(federation) if shared else _of_parties(federation, facts["categories"])
    by_name = {column.name: column for column in columns}
    return [by_name[name] for name in facts["names"]]


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


def released_columns(federation: Federation) -> Iterator[RawColumn]:
    """The columns of feature holders that a model may know, in the order of the federation.

    Args:
        federation: As declared.
    """
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
    """How much the model goes by one feature.

    Attributes:
        party: Who holds it.
        feature: Its name on the card; the bits of a nominal feature are one, a missing bit is
            one of its own.
        value: Mean absolute SHAP contribution to the raw score, over rows and classes.
        share: Of the sum over all features; 0 where no tree splits.
        gain: Sum of the gains of its splits, in training.
    """

    party: str
    feature: str
    value: float
    share: float
    gain: float


@dataclass(frozen=True)
class Importance:
    """The features of a model, most important first.

    Attributes:
        rows: How many held-out rows it stands on.
        lines: A line for each feature.
    """

    rows: int
    lines: tuple[ImportanceLine, ...]


def columns_by_feature(federation: Federation) -> dict[tuple[str, str], tuple[str, ...]]:
    """The model's columns by (party, feature), in declared order.

    Args:
        federation: As it was run.

    Returns:
        Full names ``<party>.<column>``, of horizontal learning the columns' own; several for a
        feature holder's nominal feature. A missing bit is under its own name, as it is charged.
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
    """Mean absolute SHAP contribution of each feature.

    It is a function of the label holder's own rows and of randomised values that it holds
    already, so computing it discloses nothing; publishing it would.

    Args:
        federation: As it was run.
        text: The materialised model.
        held_out: Held-out rows, others' features as (randomised) domain values; of all of them
            those of `rows_for` are used.
    """
    rows = rows_for(federation, text, len(held_out.matrix))
    parts = contributions(text, held_out.matrix[rows])
    gained = gains(text)
    at = {name: i for i, name in enumerate(held_out.names)}
    values: dict[tuple[str, str], float] = {}
    gain: dict[tuple[str, str], float] = {}
    for feature, names in columns_by_feature(federation).items():
        columns = [at[name] for name in names if name in at]
        # Bits of one feature are added before the absolute value: what they say, they say together.
        together = np.abs(parts[:, :, columns].sum(axis=2))
        values[feature] = float(together.mean()) if len(rows) else 0.0
        gain[feature] = float(gained[columns].sum())
    return Importance(len(rows), _lines(values, gain))


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


def rows_for(federation: Federation, text: str, rows: int) -> np.ndarray:
    """Which held-out rows a model's importance stands on; of these rows alone, all of them.

    Args:
        federation: As it was run.
        text: The materialised model.
        rows: How many there are.

    Returns:
        At most 10,000, evenly spaced, and fewer for a large model (see `row_cap`); integers.
    """
    splits = sum(model_of(text).split_counts().values())
    count = min(rows, row_cap(federation.training, splits))
    return np.arange(count) * rows // max(count, 1)


def row_cap(training: Training, splits: int) -> int:
    """How many rows a model's importance may stand on.

    Args:
        training: As it was run.
        splits: How many the model has.
    """
    # A tree of s splits has s + 1 leaves. Of several classes there are more trees than declared.
    leaves = max(min(2 * splits, splits + training.trees), 1)
    row = _SECONDS_A_STEP * leaves * training.depth
    enough = min(_ENOUGH_ROWS, int(_MOST / row))
    return min(_ROWS, max(_FEWEST_ROWS, enough, int(_BUDGET / row)))
