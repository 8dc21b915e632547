"""Verification of a published artifact against its claims; anyone who sees the store can do it."""

from collections.abc import Mapping, Sequence
from datetime import date

from opboost_ops.config.federation import Federation
from opboost_ops.exchange.contents import opened
from opboost_ops.exchange.encryption import OVERHEAD, SUFFIX, key_name
from opboost_ops.exchange.manifest import (
    MANIFEST,
    SIGNATURE,
    Manifest,
    parse_manifest,
    receiver_of,
    sender_of,
)
from opboost_ops.exchange.rejection import Rejected
from opboost_ops.exchange.signing import signed_by


def declared_keys(federation: Federation, manifest: Manifest, what: str) -> tuple[str, ...]:
    """The signing keys of the one party that may publish an artifact, as the federation names them.

    Those that it has replaced are among them, newest first, whatever their dates; no revoked one.

    Args:
        federation: Whose artifact it is.
        manifest: The artifact's.
        what: Name of its place, for the error.

    Raises:
        Rejected: Its federation, its parties or its encryption are not the declared ones.
    """
    if manifest.federation != federation.name:
        raise Rejected("wrong_federation", f"{what}: it is of another federation.")
    if not {manifest.party, manifest.about} <= set(federation.parties):
        raise Rejected("unknown_party", f"{what}: the federation file knows no such party.")
    holder = federation.label_holder
    if manifest.party != sender_of(manifest.kind, manifest.about, holder):
        raise Rejected(
            "wrong_party", f"{what}: {manifest.party} may not publish this {manifest.kind}."
        )
    receiver = receiver_of(manifest.kind, manifest.about, holder)
    keys = federation.parties[receiver].opening(date.min) if receiver else (None,)
    if manifest.encrypted_to not in [key and key_name(key) for key in keys]:
        raise Rejected(
            "not_for_me", f"{what}: it is not encrypted to the declared key of its receiver."
        )
    return federation.parties[manifest.party].signed_ever


def read_manifest(files: Mapping[str, bytes], what: str) -> Manifest:
    """The manifest of an artifact, whose signature is there but not verified yet.

    Args:
        files: All files of the artifact.
        what: Name of its place, for the error.

    Raises:
        Rejected: Manifest or signature is missing or damaged.
    """
    for name, role in ((MANIFEST, "manifest"), (SIGNATURE, "signature")):
        if name not in files:
            raise Rejected("malformed", f"{what}: the {role} {name} is missing.")
    return parse_manifest(files[MANIFEST], what)


def verify(manifest: Manifest, files: Mapping[str, bytes], keys: Sequence[str], what: str) -> str:
    """Check signature, form, and the files' digests; of encrypted files their names and sizes.

    Args:
        manifest: As `read_manifest` gave it.
        files: All files of the artifact.
        keys: The signer's public keys, base64: one of them must have signed.
        what: Name of its place, for the error.

    Returns:
        The key that did.

    Raises:
        Rejected: One of them is wrong.
    """
    signer = next((k for k in keys if signed_by(k, files[MANIFEST], files[SIGNATURE])), None)
    if signer is None:
        raise Rejected(
            "bad_signature", f"{what}: the signature is not by this key of {manifest.party}."
        )
    if manifest.encrypted_to is None:
        opened(manifest, files, None, what)
        return signer
    if set(files) != {MANIFEST, SIGNATURE, *(name + SUFFIX for name in manifest.files)}:
        raise Rejected("malformed", f"{what}: its files are not those it lists.")
    for name, file in manifest.files.items():
        if len(files[name + SUFFIX]) != file.size + OVERHEAD:
            raise Rejected("bad_digest", f"{what}: {name}{SUFFIX} does not have the right size.")
    return signer
