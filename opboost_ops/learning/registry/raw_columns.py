"""How each column of a model is made from a raw one, for predictions, exports and words."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from opboost_ops.config.columns import columns_of
from opboost_ops.config.feature import Feature
from opboost_ops.config.federation import Federation
from opboost_ops.config.shared_columns import EVERYONE, shared_columns
from opboost_ops.domain import DomainMap


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
    owner, domain = federation.label_holder, federation.domain.to_domain()
    for name, feature in federation.parties[owner].features.items():
        full = f"{owner}.{name}"
        if feature.type == "nominal":
            values = tuple(categories.get(full, ()))
            yield RawColumn(full, owner, name, feature, "code", categories=values)
        else:
            yield RawColumn(full, owner, name, feature, "number")
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
