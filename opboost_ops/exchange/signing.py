"""Ed25519 signatures, and the selection of the key that signs or encrypts an artifact."""

import base64
from collections.abc import Iterable, Mapping
from datetime import date, timedelta
from functools import lru_cache
from pathlib import Path

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from opboost_ops.config.federation import Federation
from opboost_ops.exchange.encryption import key_name, read_key
from opboost_ops.exchange.manifest import (
    MANIFEST,
    SIGNATURE,
    Manifest,
    parse_manifest,
    receiver_of,
    require_protocol,
)
from opboost_ops.exchange.rejection import Rejected

#: Within this many days, the keys of a run are judged by the day on which it was opened: a run ends
#: within a week (`Schedule.timeout_hours`), and clocks differ by less than a day.
RUN_DAYS = 8


def new_signing_key(seed: bytes | None = None) -> tuple[str, str]:
    """Make a signing key.

    Args:
        seed: 32 bytes that determine the key, for experiments; fresh randomness when absent.

    Returns:
        The private and the public key, each the base64 of its 32 raw bytes.
    """
    key = Ed25519PrivateKey.from_private_bytes(seed) if seed else Ed25519PrivateKey.generate()
    return _text(key.private_bytes_raw()), _text(key.public_key().public_bytes_raw())


class Signer:
    """A party's private signing key, which never leaves its process."""

    def __init__(self, key: Ed25519PrivateKey) -> None:
        self._key = key
        #: The public key, base64.
        self.public = _text(key.public_key().public_bytes_raw())

    @classmethod
    def from_file(cls, path: Path) -> "Signer":
        """Read a key written by ``opboost keys init``.

        Raises:
            ConfigError: The file is missing, readable by other users, or not an Ed25519 key.
        """
        parse = Ed25519PrivateKey.from_private_bytes
        remedy = "Restore it from a backup; only a new party makes one with `opboost keys init`."
        return cls(read_key(path, "an Ed25519 signing key", parse, remedy))

    def sign(self, message: bytes) -> bytes:
        """Return the 64-byte signature; it is deterministic."""
        return self._key.sign(message)


def signed_by(public: str, message: bytes, signature: bytes) -> bool:
    """Return whether a message was signed with a key.

    Args:
        public: The public key, base64.
        message: The signed bytes.
        signature: The signature.
    """
    try:
        _public_key(public).verify(signature, message)
    except (InvalidSignature, ValueError):
        return False
    return True


@lru_cache(maxsize=256)
def _public_key(public: str) -> Ed25519PublicKey:
    return Ed25519PublicKey.from_public_bytes(base64.b64decode(public))


def _text(raw: bytes) -> str:
    return base64.b64encode(raw).decode()


def require_recent(day: date, today: date, what: str) -> None:
    """Reject a plan that is dated too far from today: its day could make expired keys valid.

    Args:
        day: The day on which the plan states that it was opened.
        today: Today by this party's clock.
        what: Name of its place, for the error.

    Raises:
        Rejected: The day lies in the future, or too far in the past.
    """
    if not -1 <= (today - day).days <= RUN_DAYS:
        raise Rejected(
            "wrong_day", f"{what}: it states {day} as its day, but today is {today} here."
        )


def judged_by(opened: date | None, today: date) -> date:
    """Return the day on which a run's keys must be valid.

    Args:
        opened: When the run was opened, according to its plan or this party's memory.
        today: Today by this party's clock.
    """
    if opened is None or today - opened > timedelta(days=RUN_DAYS):
        return today
    return opened


def require_good(federation: Federation, sender: str, key: str, day: date, what: str) -> None:
    """Reject a signature by a key that is not valid on a day.

    Args:
        federation: The federation of the plan.
        sender: The signer.
        key: The key that signed.
        day: The day.
        what: Name of the artifact's place, for the error.

    Raises:
        Rejected: The key is expired or not yet valid.
    """
    if fault := federation.parties[sender].fault_on(key, day):
        raise Rejected("expired_key", f"{what}: the signing key of {sender} {fault}.")


def signed_manifest(
    files: Mapping[str, bytes],
    sender: str,
    keys: Iterable[str],
    revoked: frozenset[str],
    federation: Federation | None,
    what: str,
) -> tuple[Manifest, str]:
    """Return the manifest, and the sender's key that signed it.

    Args:
        files: The files found at the place.
        sender: The party that must have signed.
        keys: Keys that may have signed.
        revoked: Keys whose signatures are rejected.
        federation: The federation of the accepted plan; None before there is one.
        what: Name of the place, for the error.

    Raises:
        Rejected: It is not signed by one of the keys, or it is signed by a revoked one.
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
        _explain_foreign_signature(raw, signature, sender, federation, what)
    raise Rejected("bad_signature", f"{what}: the signature is not by the pinned key of {sender}.")


def receiver_key(manifest: Manifest, federation: Federation, what: str) -> str | None:
    """Return the declared key of an artifact's receiver; None if it is not encrypted.

    Args:
        manifest: The artifact's manifest.
        federation: The federation of the accepted plan.
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


def _explain_foreign_signature(
    raw: bytes, signature: bytes, sender: str, federation: Federation, what: str
) -> None:
    """Raise a specific error if the signature is a valid one by another party."""
    try:
        claimed = parse_manifest(raw, what).party
    except Rejected:
        return
    spec = federation.parties.get(claimed)
    if spec is None:
        raise Rejected("unknown_party", f"{what}: it is signed in the name of no party.")
    keys = spec.all_signing_keys if claimed != sender else ()
    if any(signed_by(key, raw, signature) for key in keys):
        raise Rejected("wrong_party", f"{what}: the signature is by {claimed}, not by {sender}.")
