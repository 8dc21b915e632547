"""Columns of a model: how each is released and charged, and the digests of their maps."""

import hashlib
import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from pydantic import BaseModel

from opboost_ops.config.feature import Edges, Feature, Fill
from opboost_ops.config.federation import Federation, IdColumn
from opboost_ops.domain import Domain, DomainMap
from opboost_ops.mechanisms import Mechanism, MissingBit, UnaryEncoding
from opboost_ops.mechanisms.channel import Channel
from opboost_ops.mechanisms.randomised_response import BIT

#: Suffix of the charge of a missing bit.
MISSING = "missing"

#: Stands for a party's name for common columns in horizontal learning; no party has this name.
EVERYONE = "every party"

_BIT = Domain(0, 1)

#: Characters that the names of a model's features must not contain.
_NOT_IN_NAMES = re.compile(r"[\s\",:\[\]{}/\\]")

#: Entries of a feature that do not affect how a raw cell becomes an integer.
_NOT_IN_DIGEST = frozenset({"uuid", "mechanism", "refresh"})

#: Entries of a feature that the digest spells out.
_SPELT_OUT = frozenset({"bounds", "domain", "scale", "missing"})

#: Entry of the ID with the raw column's name.
_ID_NAME = frozenset({"column"})

#: Maximum length of the part of a column's name that comes from a category.
MAX_CATEGORY_NAME = 128


@dataclass(frozen=True)
class Column:
    """A released column.

    A numeric or ordinal feature is one column under its own name. A nominal one is a bit per
    category, named ``feature=category``. A missing bit is a column ``feature=missing``.

    Attributes:
        name: Its name in artifacts and models.
        feature: The feature that it is derived from.
        charge: The name under which its loss is charged; all bits of a feature share one.
        domain: Domain of its released values.
        source: The preprocessed column that it is derived from.
        source_domain: Domain of the preprocessed column.
        mechanism: The mechanism that randomises it.
        map_digest: Digest of all declarations that map a raw cell to the domain.
        bit: Index of its category; None for columns other than bits of categories.
        guarantee: The guarantee per cell, if it depends on the source of edges.
    """

    name: str
    feature: str
    charge: str
    domain: Domain
    source: str
    source_domain: Domain
    mechanism: Mechanism | MissingBit
    map_digest: bytes
    bit: int | None = None
    guarantee: str = ""

    @property
    def is_bit(self) -> bool:
        """True for a category's bit and for a missing bit."""
        return isinstance(self.mechanism, UnaryEncoding | MissingBit)


def columns_of(federation: Federation, party: str) -> tuple[Column, ...]:
    """Return all columns that a feature holder releases, in order."""
    return _cached_columns(_IdentityKey(federation), party)


class _IdentityKey:
    """A cache key for an immutable value, compared by identity instead of by content."""

    def __init__(self, value: Any) -> None:
        self.value = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _IdentityKey) and other.value is self.value

    def __hash__(self) -> int:
        return id(self.value)


# A stage requests the columns of the same plan a dozen times.
@lru_cache(maxsize=64)
def _cached_columns(declared: _IdentityKey, party: str) -> tuple[Column, ...]:
    federation: Federation = declared.value
    domain = federation.domain.to_domain()
    features = federation.parties[party].features
    return tuple(
        column
        for name, feature in features.items()
        for column in _columns_of_feature(name, feature, domain, federation.id)
    )


def released_channels(federation: Federation) -> dict[str, Channel]:
    """Return the channel of each released column in a training frame, by ``party.column``."""
    return {
        f"{party}.{column.name}": column.mechanism.channel(column.domain)
        for party in federation.feature_holders
        for column in columns_of(federation, party)
    }


def missing_name(feature: str) -> str:
    """Return the name of a feature's missing bit."""
    return f"{feature}={MISSING}"


def _columns_of_feature(
    name: str, feature: Feature, domain: Domain, identity: IdColumn
) -> Iterator[Column]:
    assert feature.mechanism is not None
    domain = feature.domain_in(domain)
    mapped = map_digest(feature, domain, identity)
    if feature.type == "nominal":
        assert isinstance(feature.mechanism, UnaryEncoding)
        categories = feature.categories or ()
        for bit, category in enumerate(categories):
            yield Column(
                name=column_name(name, category),
                feature=name,
                charge=name,
                domain=BIT,
                source=name,
                source_domain=Domain(0, len(categories) - 1),
                mechanism=feature.mechanism,
                map_digest=mapped,
                bit=bit,
            )
    else:
        yield Column(
            name=name,
            feature=name,
            charge=name,
            domain=domain,
            source=name,
            source_domain=domain,
            mechanism=feature.mechanism,
            map_digest=mapped,
            guarantee=feature.guarantee,
        )
    if feature.missing_bit is not None:
        missing = missing_name(name)
        yield Column(
            name=missing,
            feature=name,
            charge=missing,
            domain=BIT,
            source=missing,
            source_domain=BIT,
            mechanism=feature.missing_bit,
            map_digest=missing_digest(identity),
        )


@dataclass(frozen=True)
class SharedColumn:
    """A column of a horizontal model.

    A numeric or ordinal feature is one column under its own name, a nominal one a bit per category,
    named ``feature=category``.

    Attributes:
        name: Its name in the model.
        feature: The feature that it is derived from.
        mapping: Map from raw numbers (for an ordinal feature, positions) to the domain; None for a
            bit.
        bit: Index of its category; None for other columns.
        digest: Digest of all declarations that map a raw cell to an integer.
        keeps: True if missing values are allowed; they are mapped to the integer above the domain.
    """

    name: str
    feature: str
    mapping: DomainMap | None
    bit: int | None
    digest: bytes
    keeps: bool = False

    @property
    def domain(self) -> Domain:
        """Domain of its integers."""
        return _BIT if self.mapping is None else self.mapping.domain

    @property
    def bounds(self) -> tuple[float, float]:
        """Its declared range, in the unit of the raw numbers."""
        return (0.0, 1.0) if self.mapping is None else self.mapping.bounds

    @property
    def threshold(self) -> Callable[[int], float]:
        """Function that returns the greatest raw number at or below an integer of the domain."""
        return (lambda edge: edge + 0.5) if self.mapping is None else self.mapping.highest

    def raw(self, numbers: np.ndarray) -> np.ndarray:
        """Return the feature's raw numbers as the model uses them, float64, shape (n,).

        Args:
            numbers: Raw numbers; for a feature with categories their positions, shape (n,).
        """
        return numbers if self.bit is None else np.asarray(numbers == self.bit, np.float64)

    def integers(self, numbers: np.ndarray) -> np.ndarray:
        """Map raw numbers to integers of the domain, int64, shape (n,).

        Args:
            numbers: As for `raw`.

        Raises:
            ContractError: A number is infinite, or missing although that is not allowed.
        """
        if self.mapping is None:
            return np.asarray(numbers == self.bit, dtype=np.int64)
        if not self.keeps:
            return self.mapping.encode(numbers)
        present = ~np.isnan(numbers)
        integers = np.full(len(numbers), self.domain.upper + 1, dtype=np.int64)
        integers[present] = self.mapping.encode(numbers[present])
        return integers


def shared_columns(federation: Federation) -> tuple[SharedColumn, ...]:
    """Return all columns of a horizontal model, in declaration order."""
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


def column_name(feature: str, category: str) -> str:
    """Return the name of a category's column: ``feature=category``, escaped as in URLs.

    Only characters that a model's names must not contain are escaped, and not the percent sign.

    Args:
        feature: Name of the feature.
        category: The declared category.

        >>> column_name("housing", "rent, free")
        'housing=rent%2C%20free'
    """
    return f"{feature}={_NOT_IN_NAMES.sub(_percent_encoded, category)}"


def _percent_encoded(match: re.Match[str]) -> str:
    return "".join(f"%{byte:02X}" for byte in match[0].encode())


def non_default(model: BaseModel, without: frozenset[str] = frozenset()) -> dict[str, Any]:
    """Return a model's entries as JSON values, without those that have their default.

    A mechanism's name is always included.

    Args:
        model: The model.
        without: Keys to leave out.
    """
    entries: dict[str, Any] = {}
    for name, field in type(model).model_fields.items():
        value = getattr(model, name)
        default = None if field.is_required() else field.get_default(call_default_factory=True)
        if name not in without and (name == "name" or field.is_required() or value != default):
            entries[name] = _plain_value(value)
    return entries


def canonical(value: Any) -> bytes:
    """Serialise a JSON value canonically, for digests."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True).encode()


def map_digest(feature: Feature, domain: Domain, identity: IdColumn) -> bytes:
    """Return the SHA-256 of all declarations that map a feature's raw cell to an integer.

    Args:
        feature: The declared feature.
        domain: The federation's domain.
        identity: The federation's ID.
    """
    edges = feature.scale.edges if isinstance(feature.scale, Edges) else None
    domain = feature.domain_in(domain)
    content = {
        **non_default(feature, _NOT_IN_DIGEST | _SPELT_OUT),
        "type": feature.type,
        "missing": _missing_rule(feature),
        "id": non_default(identity, _ID_NAME),
        "domain": None if feature.type == "nominal" else [domain.lower, domain.upper],
        "bounds": [float(b).hex() for b in feature.bounds or ()],
        "scale": "edges" if edges is not None else feature.scale,
        "edges": [float(e).hex() for e in edges or ()],
    }
    return hashlib.sha256(canonical(content)).digest()


def missing_digest(identity: IdColumn) -> bytes:
    """Return the SHA-256 of all declarations that determine a person's missing bit.

    Whether a value is missing depends on no declaration, not even on its fill, but the person
    depends on how IDs are derived.

    Args:
        identity: The federation's ID.
    """
    return hashlib.sha256(b"missing" + canonical(non_default(identity, _ID_NAME))).digest()


def _missing_rule(feature: Feature) -> Any:
    if isinstance(feature.missing, Fill):
        fill = feature.missing.fill
        return {"fill": fill if isinstance(fill, str) else float(fill).hex()}
    return feature.missing


def _plain_value(value: Any) -> Any:
    if isinstance(value, BaseModel):
        return non_default(value)
    if isinstance(value, Mapping):
        return {str(name): _plain_value(inner) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_plain_value(inner) for inner in value]
    return value if isinstance(value, bool | int | float | str | None) else str(value)
