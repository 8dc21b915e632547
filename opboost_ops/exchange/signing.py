"""Ed25519 signatures, and by which of a party's keys an artifact is signed and encrypted."""

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

#: For so many days what a run makes is judged by the day on which it was opened: a run ends within
#: a week (`Schedule.timeout_hours`), and clocks differ by less than a day.
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
    """A party's private key, kept inside its process."""

    def __init__(self, key: Ed25519PrivateKey) -> None:
        self._key = key
        #: The public key, base64.
        self.public = _text(key.public_key().public_bytes_raw())

    @classmethod
    def from_file(cls, path: Path) -> "Signer":
        """Read a key written by ``opboost keys init``.

        Raises:
            ConfigError: The file is missing, readable by others, or no Ed25519 key.
        """
        parse = Ed25519PrivateKey.from_private_bytes
        remedy = "Make one with `opboost keys init`."
        return cls(read_key(path, "an Ed25519 signing key", parse, remedy))

    def sign(self, message: bytes) -> bytes:
        """The 64-byte signature; the same message always gives the same bytes."""
        return self._key.sign(message)


def signed_by(public: str, message: bytes, signature: bytes) -> bool:
    """True if the holder of a key signed a message.

    Args:
        public: The key, base64.
        message: The signed bytes.
        signature: What came with them.
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
    """Refuse a plan of another time: its day would make expired keys valid.

    Args:
        day: On which it says that it was opened.
        today: By this party's clock.
        what: Name of its place, for the error.

    Raises:
        Rejected: It lies ahead, or too long ago.
    """
    if not -1 <= (today - day).days <= RUN_DAYS:
        raise Rejected(
            "wrong_day", f"{what}: it states {day} as its day, but today is {today} here."
        )


def judged_by(opened: date | None, today: date) -> date:
    """The day by which a run's keys are judged.

    Args:
        opened: When it was opened, as its plan or this party's own memory says.
        today: By this party's clock.
    """
    if opened is None or today - opened > timedelta(days=RUN_DAYS):
        return today
    return opened


def require_good(federation: Federation, sender: str, key: str, day: date, what: str) -> None:
    """Refuse what is signed by a key that is not good on a day.

    Args:
        federation: The plan's.
        sender: Who signed.
        key: With which of its keys.
        day: As of when.
        what: Name of the artifact's place, for the error.

    Raises:
        Rejected: Its time has passed, or has not come.
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
    keys = spec.all_signing_keys if claimed != sender else ()
    if any(signed_by(key, raw, signature) for key in keys):
        raise Rejected("wrong_party", f"{what}: the signature is by {claimed}, not by {sender}.")
