"""By which of a sender's keys an artifact is signed, and to which of its receiver's encrypted."""

from collections.abc import Iterable, Mapping

from opboost_ops.config.federation import Federation
from opboost_ops.exchange.encryption import key_name
from opboost_ops.exchange.manifest import (
    MANIFEST,
    SIGNATURE,
    Manifest,
    parse_manifest,
    receiver_of,
    require_protocol,
)
from opboost_ops.exchange.rejection import Rejected
from opboost_ops.exchange.signing import signed_by


def signed_manifest(
    files: Mapping[str, bytes],
    sender: str,
    keys: Iterable[str],
    revoked: frozenset[str],
    federation: Federation | None,
    what: str,
) -> tuple[Manifest, str]:
    """The manifest, and by which of the sender's keys it is signed.

    Args:
        files: What lies at the place.
        sender: Whose place it is.
        keys: That may have signed it.
        revoked: Keys that nothing is taken from.
        federation: The accepted plan's; None before there is one.
        what: Name of the place, for the error.

    Raises:
        Rejected: It is signed by none of them, or by one that is revoked.
    """
    raw, signature = files.get(MANIFEST), files.get(SIGNATURE)
    if raw is None or signature is None:
        raise Rejected("malformed", f"{what}: manifest or signature is missing.")
    if federation is not None:
        revoked |= frozenset(federation.parties[sender].revoked_keys)
    if any(signed_by(key, raw, signature) for key in revoked):
        raise Rejected("revoked_key", f"{what}: it is signed by a key of {sender} that is revoked.")
    for key in keys:
        if signed_by(key, raw, signature):
            manifest = parse_manifest(raw, what)
            require_protocol(manifest, what)
            return manifest, key
    if federation is not None:
        _require_stranger(raw, signature, sender, federation, what)
    raise Rejected("bad_signature", f"{what}: the signature is not by the pinned key of {sender}.")


def receiver_key(manifest: Manifest, federation: Federation, what: str) -> str | None:
    """The declared key of an artifact's receiver; None where it lies as it is.

    Args:
        manifest: The artifact's.
        federation: The accepted plan's.
        what: Name of the place, for the error.

    Raises:
        Rejected: It is not encrypted to that key.
    """
    receiver = receiver_of(manifest.kind, manifest.about, federation.label_holder)
    key = None if receiver is None else federation.parties[receiver].encryption_key
    if manifest.encrypted_to != (key and key_name(key)):
        raise Rejected(
            "not_for_me", f"{what}: it is not encrypted to the declared key of its receiver."
        )
    return key


def _require_stranger(
    raw: bytes, signature: bytes, sender: str, federation: Federation, what: str
) -> None:
    """Say it, if the wrong signature is another's right one."""
    try:
        claimed = parse_manifest(raw, what).party
    except Rejected:
        return
    spec = federation.parties.get(claimed)
    if spec is None:
        raise Rejected("unknown_party", f"{what}: it is signed in the name of no party.")
    keys = spec.signed_ever if claimed != sender else ()
    if any(signed_by(key, raw, signature) for key in keys):
        raise Rejected("wrong_party", f"{what}: the signature is by {claimed}, not by {sender}.")
