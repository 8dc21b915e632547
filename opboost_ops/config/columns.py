"""Which columns a protected feature is released as, and what each is charged to."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from opboost_ops.config.declared_map import map_digest, missing_digest
from opboost_ops.config.feature import Feature
from opboost_ops.config.federation import Federation, IdColumn
from opboost_ops.domain import Domain
from opboost_ops.mechanisms import Mechanism, MissingBit, UnaryEncoding
from opboost_ops.mechanisms.bits import BIT
from opboost_ops.mechanisms.channel import Channel

#: Longest part of such a name that a category gives.
LONGEST = 128

#: What the names of a model's features may not hold.
_NOT_IN_NAMES = re.compile(r"[\s\",:\[\]{}/\\]")


def column_name(feature: str, category: str) -> str:
    """The column of a category: ``feature=category``, with %20 for a blank, as in URLs.

    Only what a model's names may not hold is written so; a per cent sign stays one.

    Args:
        feature: The feature's name.
        category: As declared.

        >>> column_name("housing", "rent, free")
        'housing=rent%2C%20free'
    """
    return f"{feature}={_NOT_IN_NAMES.sub(_written, category)}"


def _written(match: re.Match[str]) -> str:
    return "".join(f"%{byte:02X}" for byte in match[0].encode())


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
    return _columns_of(_Itself(federation), party)


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
def _columns_of(declared: _Itself, party: str) -> tuple[Column, ...]:
    federation: Federation = declared.value
    domain = federation.domain.to_domain()
    features = federation.parties[party].features
    return tuple(
        column
        for name, feature in features.items()
        for column in _columns(name, feature, domain, federation.id)
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


#: How the charge of a missing bit is named beside its feature's.
MISSING = "missing"


def missing_name(feature: str) -> str:
    """Name of a feature's missing bit."""
    return f"{feature}={MISSING}"


def _columns(name: str, feature: Feature, domain: Domain, identity: IdColumn) -> Iterator[Column]:
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
