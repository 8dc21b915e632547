"""Columns that a model has: what each is released as and charged to, and the digest of its map."""

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

#: How the charge of a missing bit is named beside its feature's.
MISSING = "missing"

#: In whose name the common columns stand where a party's name is asked for; no party has it.
EVERYONE = "every party"

_BIT = Domain(0, 1)

#: What the names of a model's features may not hold.
_NOT_IN_NAMES = re.compile(r"[\s\",:\[\]{}/\\]")

#: Of a feature: not part of the way from a raw cell to an integer.
_BESIDE = frozenset({"uuid", "mechanism", "refresh"})

#: Of a feature: what the digest spells out.
_BY_FORM = frozenset({"bounds", "domain", "scale", "missing"})

#: Of the ID: the raw column's name.
_ID_NAME = frozenset({"column"})

#: Longest part of a column's name that a category gives.
LONGEST = 128


@dataclass(frozen=True)
class Column:
    """One released column.

    A numeric or ordinal feature is one column under its own name. A nominal one is a bit for
    each category, named ``feature=category``. A missing bit is a column ``feature=missing``.

    Attributes:
        name: Its name in artifacts and models.
        feature: The feature that it tells about.
        charge: Under which name its loss is charged: the bits of a category share one.
        domain: Where its released values lie.
        source: The preprocessed column that it is made from.
        source_domain: Where that column's values lie.
        mechanism: What randomises it.
        map_digest: Digest of every declaration that makes a raw cell a value of that domain.
        bit: Which category's bit it is; None for all other columns.
        guarantee: What holds for a cell, where that hangs on where edges come from.
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
    """All columns that a feature holder releases, in their order.

    Args:
        federation: As declared.
        party: A feature holder.
    """
    return _cached_columns(_Itself(federation), party)


class _Itself:
    """A frozen value as a key: it equals itself alone, which takes no comparison of its content."""

    def __init__(self, value: Any) -> None:
        self.value = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Itself) and other.value is self.value

    def __hash__(self) -> int:
        return id(self.value)


# A stage asks a dozen times for the columns of one and the same plan.
@lru_cache(maxsize=64)
def _cached_columns(declared: _Itself, party: str) -> tuple[Column, ...]:
    federation: Federation = declared.value
    domain = federation.domain.to_domain()
    features = federation.parties[party].features
    return tuple(
        column
        for name, feature in features.items()
        for column in _columns_of_feature(name, feature, domain, federation.id)
    )


def released_channels(federation: Federation) -> dict[str, Channel]:
    """The channel of each of others' columns in a training frame, by ``party.column``.

    Args:
        federation: The plan's.
    """
    return {
        f"{party}.{column.name}": column.mechanism.channel(column.domain)
        for party in federation.feature_holders
        for column in columns_of(federation, party)
    }


def missing_name(feature: str) -> str:
    """Name of a feature's missing bit."""
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


def column_name(feature: str, category: str) -> str:
    """The column of a category: ``feature=category``, with %20 for a blank, as in URLs.

    Only what a model's names may not hold is written so; a per cent sign stays one.

    Args:
        feature: The feature's name.
        category: As declared.

        >>> column_name("housing", "rent, free")
        'housing=rent%2C%20free'
    """
    return f"{feature}={_NOT_IN_NAMES.sub(_percent_encoded, category)}"


def _percent_encoded(match: re.Match[str]) -> str:
    return "".join(f"%{byte:02X}" for byte in match[0].encode())


def differing(model: BaseModel, without: frozenset[str] = frozenset()) -> dict[str, Any]:
    """A model's entries as JSON values, but for those at their default.

    A mechanism's name is always there.

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
    """The one way in which a JSON value is written where its digest matters."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True).encode()


def map_digest(feature: Feature, domain: Domain, identity: IdColumn) -> bytes:
    """Sha256 of every declaration by which a raw cell of a feature becomes an integer.

    Args:
        feature: As declared.
        domain: The federation's domain.
        identity: The federation's ID.
    """
    edges = feature.scale.edges if isinstance(feature.scale, Edges) else None
    domain = feature.domain_in(domain)
    facts = {
        **differing(feature, _BESIDE | _BY_FORM),
        "type": feature.type,
        "missing": _rule_of_missing(feature),
        "id": differing(identity, _ID_NAME),
        "domain": None if feature.type == "nominal" else [domain.lower, domain.upper],
        "bounds": [float(b).hex() for b in feature.bounds or ()],
        "scale": "edges" if edges is not None else feature.scale,
        "edges": [float(e).hex() for e in edges or ()],
    }
    return hashlib.sha256(canonical(facts)).digest()


def missing_digest(identity: IdColumn) -> bytes:
    """Sha256 of every declaration by which a missing bit is a person's.

    Whether a value is missing depends on no declaration, not on what fills it, either. Whose bit
    it is depends on how IDs are made.

    Args:
        identity: The federation's ID.
    """
    return hashlib.sha256(b"missing" + canonical(differing(identity, _ID_NAME))).digest()


def _rule_of_missing(feature: Feature) -> Any:
    if isinstance(feature.missing, Fill):
        fill = feature.missing.fill
        return {"fill": fill if isinstance(fill, str) else float(fill).hex()}
    return feature.missing


def _plain_value(value: Any) -> Any:
    if isinstance(value, BaseModel):
        return differing(value)
    if isinstance(value, Mapping):
        return {str(name): _plain_value(inner) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_plain_value(inner) for inner in value]
    return value if isinstance(value, bool | int | float | str | None) else str(value)
