"""The digest of all that makes a raw cell a domain integer."""

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel

from opboost_ops.config.feature import Edges, Feature, Fill
from opboost_ops.config.federation import IdColumn
from opboost_ops.domain import Domain

#: Of a feature: not part of the way from a raw cell to an integer.
_BESIDE = frozenset({"uuid", "mechanism", "refresh"})

#: Of a feature: what the digest spells out.
_BY_FORM = frozenset({"bounds", "domain", "scale", "missing"})

#: Of the ID: the raw column's name.
_ID_NAME = frozenset({"column"})


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
            entries[name] = _plain(value)
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
        "missing": _rule(feature),
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


def _rule(feature: Feature) -> Any:
    if isinstance(feature.missing, Fill):
        fill = feature.missing.fill
        return {"fill": fill if isinstance(fill, str) else float(fill).hex()}
    return feature.missing


def _plain(value: Any) -> Any:
    if isinstance(value, BaseModel):
        return differing(value)
    if isinstance(value, Mapping):
        return {str(name): _plain(inner) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(inner) for inner in value]
    return value if isinstance(value, bool | int | float | str | None) else str(value)
