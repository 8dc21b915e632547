"""Which columns a protected feature is released as, and what each is charged to."""

import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from uuid import UUID

from opboost_ops.config.feature import Feature, Fill
from opboost_ops.config.federation import Federation
from opboost_ops.domain import Domain
from opboost_ops.mechanisms import Mechanism, MissingBit, UnaryEncoding, noise
from opboost_ops.mechanisms.bits import BIT


@dataclass(frozen=True)
class Column:
    """One released column.

    A numeric or ordinal feature is one column under its own name. A nominal one is a bit for
    each category, named ``feature=category``. A missing bit is a column ``feature=missing``.

    Attributes:
        name: Its name in artifacts and models.
        feature: The feature that it tells about.
        charge: Under which name its loss is charged: the bits of a category share one.
        uuid: The feature's UUID.
        domain: Where its released values lie.
        source: The preprocessed column that it is made from.
        source_domain: Where that column's values lie.
        mechanism: What randomises it.
        map_digest: Digest of the public map onto the source's domain.
        bit: Which category's bit it is; None for all other columns.
        guarantee: What holds for a cell, where that hangs on where edges come from.
    """

    name: str
    feature: str
    charge: str
    uuid: UUID
    domain: Domain
    source: str
    source_domain: Domain
    mechanism: Mechanism | MissingBit
    map_digest: bytes
    bit: int | None = None
    guarantee: str = ""

    def noise_context(self, secret: bytes) -> bytes:
        """Name of all that keys this column's noise besides its UUID: a cell's state is under it.

        Args:
            secret: The receiver's secret.
        """
        channel = self.mechanism.channel(self.domain)
        return noise.cell_context(secret, self.map_digest, channel.digest())


def columns_of(federation: Federation, party: str) -> tuple[Column, ...]:
    """All columns that a feature holder releases, in their order.

    Args:
        federation: As declared.
        party: A feature holder.
    """
    domain = federation.domain.to_domain()
    features = federation.parties[party].features
    return tuple(c for name in features for c in _columns(name, features[name], domain))


def missing_name(feature: str) -> str:
    """Name of a feature's missing bit."""
    return f"{feature}=missing"


def _columns(name: str, feature: Feature, domain: Domain) -> Iterator[Column]:
    assert feature.mechanism is not None
    if feature.type == "nominal":
        assert isinstance(feature.mechanism, UnaryEncoding)
        categories = feature.categories or ()
        digest = hashlib.sha256(json.dumps(["nominal", *categories]).encode()).digest()
        for bit, category in enumerate(categories):
            yield Column(
                name=f"{name}={category}",
                feature=name,
                charge=name,
                uuid=feature.uuid,
                domain=BIT,
                source=name,
                source_domain=Domain(0, len(categories) - 1),
                mechanism=feature.mechanism,
                map_digest=digest,
                bit=bit,
            )
    else:
        yield Column(
            name=name,
            feature=name,
            charge=name,
            uuid=feature.uuid,
            domain=domain,
            source=name,
            source_domain=domain,
            mechanism=feature.mechanism,
            map_digest=feature.domain_map(domain).digest(),
            guarantee=feature.guarantee,
        )
    if isinstance(feature.missing, Fill) and feature.missing.bit is not None:
        missing = missing_name(name)
        yield Column(
            name=missing,
            feature=name,
            charge=missing,
            uuid=feature.uuid,
            domain=BIT,
            source=missing,
            source_domain=BIT,
            mechanism=feature.missing.bit,
            map_digest=hashlib.sha256(b"missing").digest(),
        )
