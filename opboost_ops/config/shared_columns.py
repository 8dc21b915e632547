"""Which columns a model of horizontal learning has: the same ones at every party."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from opboost_ops.config.columns import column_name
from opboost_ops.config.declared_map import map_digest
from opboost_ops.config.federation import Federation
from opboost_ops.domain import Domain, DomainMap

#: In whose name the common columns stand where a party's name is asked for; no party has it.
EVERYONE = "every party"

_BIT = Domain(0, 1)


@dataclass(frozen=True)
class SharedColumn:
    """One column of the model.

    A numeric or ordinal feature is one column under its own name, a nominal one a bit for each
    category, named ``feature=category``.

    Attributes:
        name: Its name in the model.
        feature: The feature that it tells about.
        mapping: From raw numbers (of an ordinal feature, positions) to the domain; None for a bit.
        bit: Position of its category; None for all other columns.
        digest: Of every declaration that makes a raw cell one of its integers.
        keeps: Whether it may miss values, as declared; one that is missing is the integer above
            the domain.
    """

    name: str
    feature: str
    mapping: DomainMap | None
    bit: int | None
    digest: bytes
    keeps: bool = False

    @property
    def domain(self) -> Domain:
        """Where its integers lie."""
        return _BIT if self.mapping is None else self.mapping.domain

    @property
    def bounds(self) -> tuple[float, float]:
        """Its declared range, in the unit of the raw numbers."""
        return (0.0, 1.0) if self.mapping is None else self.mapping.bounds

    @property
    def threshold(self) -> Callable[[int], float]:
        """The greatest raw number at or below an integer of the domain."""
        return (lambda edge: edge + 0.5) if self.mapping is None else self.mapping.highest

    def raw(self, numbers: np.ndarray) -> np.ndarray:
        """Raw numbers of the feature as the model sees them, float64, shape (n,).

        Args:
            numbers: Raw numbers, of a feature with categories their positions, shape (n,).
        """
        return numbers if self.bit is None else np.asarray(numbers == self.bit, np.float64)

    def integers(self, numbers: np.ndarray) -> np.ndarray:
        """Integers of the domain, int64, shape (n,).

        Args:
            numbers: As for `raw`.

        Raises:
            ContractError: A number is infinite, or missing where it must not be.
        """
        if self.mapping is None:
            return np.asarray(numbers == self.bit, dtype=np.int64)
        if not self.keeps:
            return self.mapping.encode(numbers)
        there = ~np.isnan(numbers)
        integers = np.full(len(numbers), self.domain.upper + 1, dtype=np.int64)
        integers[there] = self.mapping.encode(numbers[there])
        return integers


def shared_columns(federation: Federation) -> tuple[SharedColumn, ...]:
    """All columns of the model, in the order of the declaration.

    Args:
        federation: One of horizontal learning.
    """
    columns: list[SharedColumn] = []
    domain = federation.domain.to_domain()
    for name, feature in federation.shared_features.items():
        digest = map_digest(feature, domain, federation.id)
        if feature.type != "nominal":
            mapping = feature.domain_map(domain)
            keeps = feature.missing == "keep"
            columns.append(SharedColumn(name, name, mapping, None, digest, keeps))
            continue
        categories = feature.categories or ()
        columns += [
            SharedColumn(column_name(name, category), name, None, at, digest)
            for at, category in enumerate(categories)
        ]
    return tuple(columns)
