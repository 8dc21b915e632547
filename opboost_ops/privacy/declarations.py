"""The declaration of a release: how a raw column becomes responses, and its digest.

Two declarations of one column are two releases, and each is charged. The digest only identifies the
declaration; the pins are what protects people.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, Literal

import numpy as np

from opboost_ops.config.columns import Column, canonical, columns_of, non_default
from opboost_ops.config.federation import Federation
from opboost_ops.config.policy import Policy, Routed
from opboost_ops.config.site import Site
from opboost_ops.domain import Domain
from opboost_ops.privacy.loss import LossCurve, column_losses

#: An exact loss or sum of losses; a float only if infinite.
Loss = Fraction | float

#: Fields of a pin: a response, response bits, and the exact integers of routed answers.
RESPONSE, BITS, EXACT, EXACT_MISSING = "response", "bits", "exact", "exact_missing"


def across(losses: Mapping[str, LossCurve]) -> Loss:
    """Return the sum of losses across the full range.

    Args:
        losses: Loss curves by charge.
    """
    return sum((exact(curve.loss[-1]) for curve in losses.values()), Fraction(0))


def exact(loss: float | Literal["inf"]) -> Loss:
    """Return a loss of a curve as an exact number."""
    return float("inf") if loss == "inf" else Fraction(loss)


@dataclass(frozen=True)
class Declaration:
    """A feature as it is released.

    Attributes:
        feature: Name in the federation file.
        column: Name of the raw column.
        digest: SHA-256 of how a raw row becomes a response, 64 hex digits.
        columns: The columns that the feature is released as.
        losses: Loss curves by charge.
        refresh: When a new release opens.
        routed: How routed answers are computed; None if there are none.
    """

    feature: str
    column: str
    digest: str
    columns: tuple[Column, ...]
    losses: Mapping[str, LossCurve]
    refresh: Literal["never", "yearly"] = "never"
    routed: Routed | None = None

    @property
    def loss(self) -> Loss:
        """Cost of a release: the loss across the full range, with the missing bit."""
        return across(self.losses)

    @cached_property
    def sources(self) -> Mapping[str, Domain]:
        """Domains of the integers that responses are computed from, by preprocessed column."""
        return {column.source: column.source_domain for column in self.columns}

    @property
    def bits(self) -> tuple[Column, ...]:
        """The columns that are released as bits."""
        return tuple(column for column in self.columns if column.is_bit)

    @property
    def value(self) -> Column | None:
        """The column that is released as an integer; None for a nominal feature."""
        return next((column for column in self.columns if not column.is_bit), None)

    @cached_property
    def kind(self) -> np.dtype[Any]:
        """The fixed-width dtype of a pin."""
        fields: list[Any] = []
        if self.value is not None:
            outputs = self.value.mechanism.channel(self.value.domain).outputs
            fields.append((RESPONSE, smallest(int(outputs.min()), int(outputs.max()))))
        if self.bits:
            fields.append((BITS, np.uint8, (-(-len(self.bits) // 8),)))
        if self.routed == "once":
            for name, domain in zip((EXACT, EXACT_MISSING), self.sources.values(), strict=False):
                fields.append((name, smallest(domain.lower, domain.upper)))
        return np.dtype(fields)


def smallest(lower: int, upper: int) -> np.dtype[Any]:
    """Return a small dtype that holds the integers of a range.

    Args:
        lower: Lowest integer.
        upper: Highest integer.
    """
    return np.result_type(np.min_scalar_type(lower), np.min_scalar_type(upper))


def declarations(
    federation: Federation, party: str, policy: Policy, site: Site
) -> dict[str, Declaration]:
    """Return the declarations of all features that a party releases, by feature.

    Args:
        federation: The federation of the plan.
        party: A feature holder.
        policy: Its policy.
        site: Its site configuration.
    """
    by_feature: dict[str, Declaration] = {}
    if party not in federation.feature_holders:
        return by_feature
    identity = federation.id
    tables = site.tables.get(federation.name)
    aggregate = {} if tables is None else tables.aggregate
    columns = columns_of(federation, party)
    for name, feature in federation.parties[party].features.items():
        mine = tuple(column for column in columns if column.feature == name)
        raw = policy.raw_column(name, identity.column).strip()
        rule = policy.features.get(name)
        routed = rule.routed if rule is not None else None
        content = {
            "column": raw,
            "id": non_default(identity),
            "raw_id": policy.raw_column(identity.column, identity.column).strip(),
            "aggregate": {c: str(how) for c, how in aggregate.items()} if aggregate else None,
            "map": sorted({column.map_digest.hex() for column in mine}),
            "channels": [
                [str(column.bit), column.mechanism.channel(column.domain).digest().hex()]
                for column in mine
            ],
            "routed": routed,
        }
        by_feature[name] = Declaration(
            feature=name,
            column=raw,
            digest=hashlib.sha256(canonical(content)).hexdigest(),
            columns=mine,
            losses=column_losses(mine),
            refresh=feature.refresh,
            routed=routed,
        )
    return by_feature
