"""A party's public keys, and their periods of validity."""

import hashlib
from datetime import date
from typing import Literal

from opboost_ops.config.schema import PublicKey, Record

#: Purpose of a key.
KeyUse = Literal["signing", "encryption"]

#: Maximum number of days for which a replaced key stays valid.
MAX_OVERLAP_DAYS = 92


class FormerKey(Record):
    """A key that a party has replaced.

    Attributes:
        use: Purpose of the key.
        key: The public key.
        until: Last day on which a run that uses it may begin.
    """

    use: KeyUse
    key: PublicKey
    until: date


class PublicKeys(Record):
    """The public keys of a party.

    Attributes:
        signing_key: Ed25519 public key.
        signing_key_from: First day on which others accept its signatures.
        signing_key_expires: Last day on which others accept its signatures.
        encryption_key: X25519 public key to which artifacts for the party are encrypted. Without
            one, everyone who can read the store can read them.
        former_keys: Replaced keys. They are valid until their dates, and stay listed so that old
            signatures can be verified.
        revoked_keys: Keys that are always refused, whatever dates another file gives them.
    """

    signing_key: PublicKey
    signing_key_from: date | None = None
    signing_key_expires: date | None = None
    encryption_key: PublicKey | None = None
    former_keys: tuple[FormerKey, ...] = ()
    revoked_keys: tuple[PublicKey, ...] = ()

    @property
    def dated(self) -> bool:
        """True if the validity of a key depends on the day."""
        ends = (self.signing_key_from, self.signing_key_expires)
        return ends != (None, None) or bool(self.former_keys)

    @property
    def all_signing_keys(self) -> tuple[str, ...]:
        """All listed signing keys, newest first, regardless of their dates."""
        former = (former.key for former in self.former_keys if former.use == "signing")
        return (self.signing_key, *former)

    def fault_on(self, key: str, day: date) -> str:
        """Return why a signing key is not valid on a day; empty if it is.

        Args:
            key: One of `all_signing_keys`.
            day: The day.
        """
        if key == self.signing_key:
            first, last = self.signing_key_from, self.signing_key_expires
        else:
            dates = [f.until for f in self.former_keys if (f.use, f.key) == ("signing", key)]
            if not dates:
                return "is not one that the plan names"
            first, last = None, max(dates)
        if first is not None and day < first:
            return f"is not valid before {first}"
        return f"has expired on {last}" if last is not None and day > last else ""

    def signing(self, day: date) -> tuple[str, ...]:
        """Return the signing keys that are valid on a day, newest first."""
        return tuple(key for key in self.all_signing_keys if not self.fault_on(key, day))

    def opening(self, day: date) -> tuple[str | None, ...]:
        """Return the encryption keys that a run of a day may use; None stands for no key."""
        former = (f.key for f in self.former_keys if f.use == "encryption" and day <= f.until)
        return (self.encryption_key, *former)


#: Number of groups of five digits; 30 digits carry 99 bits.
_GROUPS = 6


def fingerprint(signing_key: str, encryption_key: str | None) -> str:
    """Return the fingerprint of a party's public keys: six groups of five digits.

    Args:
        signing_key: Base64 text.
        encryption_key: Base64 text; None for a party without one.
    """
    content = f"opboost fingerprint 1\n{signing_key}\n{encryption_key or ''}\n"
    number = int.from_bytes(hashlib.sha256(content.encode()).digest(), "big")
    digits = f"{number % 10 ** (5 * _GROUPS):0{5 * _GROUPS}d}"
    return " ".join(digits[at : at + 5] for at in range(0, len(digits), 5))
