"""What of a declaration makes a raw cell a domain integer, and the two digests of it.

The *full* digest covers every declaration by which a raw cell becomes an integer. The digest in
the noise's key has two versions. Version 1 left out the fill, the type and, of ordinal features,
the categories: with a changed fill only people whose value is missing got new noise, and anyone who
compared two releases knew who they are. Version 2 is the full digest. Version 1 goes on as long as
a column's declarations are those that the party's first agreement recorded, so that nobody's
noise changes because the software did; any other declaration changes everybody's.
"""

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel

from opboost_ops.config.feature import AnyFeature, Edges, PlainFill
from opboost_ops.config.federation import IdColumn
from opboost_ops.domain import Domain
from opboost_ops.mechanisms import MissingBit

#: Of a feature: not part of the way from a raw cell to an integer.
_BESIDE = frozenset({"uuid", "mechanism", "epsilons", "missing"})

#: Of a feature: in version 1's digest already.
_IN_VERSION_1 = frozenset({"bounds", "scale"})

#: Of the ID: the raw column's name, and what the person's key covers itself.
_OF_THE_PERSON = frozenset({"column", "type"})

#: Beside `first_declared`, the type of IDs when the party first agreed to a column.
ID_TYPE = "id_type"

#: By column UUID: what its first agreement recorded; see `first_declared` and `ID_TYPE`.
Recorded = Mapping[str, Mapping[str, Any]]


def differing(model: BaseModel, without: frozenset[str] = frozenset()) -> dict[str, Any]:
    """A model's entries as JSON values, but for those at their default.

    A key that a later version adds is absent as long as it stands at its default, so that digests
    of what was declared before it stay as they are. A mechanism's name is always there.

    Args:
        model: The model.
        without: Keys to leave out.
    """
    found: dict[str, Any] = {"name": model.name} if isinstance(model, MissingBit) else {}
    for name, field in type(model).model_fields.items():
        value = getattr(model, name)
        default = None if field.is_required() else field.get_default(call_default_factory=True)
        if name not in without and (name == "name" or field.is_required() or value != default):
            found[name] = _plain(value)
    return found


def canonical(value: Any) -> bytes:
    """The one way in which a JSON value is written where its digest matters."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True).encode()


def first_declared(feature: AnyFeature, identity: IdColumn) -> dict[str, Any]:
    """What version 1 of the map's digest left out, as the first agreement records it.

    Args:
        feature: As declared.
        identity: The federation's ID.
    """
    facts = differing(feature, _BESIDE | _IN_VERSION_1)
    facts["type"] = feature.type
    if feature.missing != "forbid":
        facts["missing"] = _rule(feature)
    if normalised := differing(identity, _OF_THE_PERSON):
        facts["id"] = normalised
    return facts


def full_digest(feature: AnyFeature, domain: Domain, identity: IdColumn) -> bytes:
    """Sha256 of every declaration by which a raw cell of a feature becomes an integer.

    Args:
        feature: As declared.
        domain: The federation's domain.
        identity: The federation's ID.
    """
    edges = feature.scale.edges if isinstance(feature.scale, Edges) else None
    facts = {
        **first_declared(feature, identity),
        "version": 2,
        "domain": None if feature.type == "nominal" else [domain.lower, domain.upper],
        "bounds": [float(b).hex() for b in feature.bounds or ()],
        "scale": "edges" if edges is not None else feature.scale,
        "edges": [float(e).hex() for e in edges or ()],
    }
    return hashlib.sha256(canonical(facts)).digest()


def missing_digest(identity: IdColumn) -> bytes:
    """Sha256 of every declaration by which a missing bit is a person's.

    Whether a value is missing hangs on no declaration: not on what fills it, either. Whose bit it
    is hangs on how IDs are made.

    Args:
        identity: The federation's ID.
    """
    made = differing(identity, _OF_THE_PERSON)
    return hashlib.sha256(b"missing" + (canonical(made) if made else b"")).digest()


def noise_digest(
    version_1: bytes, full: bytes, now: Mapping[str, Any], recorded: Any, identity: IdColumn
) -> bytes:
    """The map's digest in the noise's key.

    IDs of another type have other person keys, so everybody is drawn again: that is another key,
    and another account.

    Args:
        version_1: The digest of the former version.
        full: The full digest.
        now: `first_declared` as declared now.
        recorded: The same when the party first agreed, with `ID_TYPE`; None if nothing was
            recorded.
        identity: The federation's ID.
    """
    before = dict(recorded or now)
    then = before.pop(ID_TYPE, identity.type)
    found = version_1 if before == dict(now) else full
    if then == identity.type:
        return found
    return hashlib.sha256(found + f"IDs of type {identity.type}".encode()).digest()


def _rule(feature: AnyFeature) -> Any:
    if isinstance(feature.missing, PlainFill):
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
