"""A party's public keys, with the dates from which and until which others go by them."""

import hashlib
from datetime import date
from typing import Literal

from opboost_ops.config.schema import PublicKey, Record

#: What a key is for.
KeyUse = Literal["signing", "encryption"]

#: For so many days at most a replaced key may still be good: `opboost agree` refuses more.
LONGEST_OVERLAP = 92


class FormerKey(Record):
    """A key that a party has replaced.

    Attributes:
        use: What the key was for.
        key: The public key.
        until: The last day on which a run under it may begin.
    """

    use: KeyUse
    key: PublicKey
    until: date


class PublicKeys(Record):
    """The keys of one party.

    Attributes:
        signing_key: Its Ed25519 public key.
        signing_key_from: The first day on which others accept what that key signed.
        signing_key_expires: The last day on which they do.
        encryption_key: Its X25519 public key: what is addressed to it is encrypted. Without one
            anyone who reads the store reads all of it.
        former_keys: Keys that it has replaced: good until their dates, and always listed, so that
            what they signed can be verified.
        revoked_keys: Keys of it that are refused, whatever date another file gives them.
    """

    signing_key: PublicKey
    signing_key_from: date | None = None
    signing_key_expires: date | None = None
    encryption_key: PublicKey | None = None
    former_keys: tuple[FormerKey, ...] = ()
    revoked_keys: tuple[PublicKey, ...] = ()

    @property
    def dated(self) -> bool:
        """True if the day decides which keys are valid."""
        ends = (self.signing_key_from, self.signing_key_expires)
        return ends != (None, None) or bool(self.former_keys)

    @property
    def signed_ever(self) -> tuple[str, ...]:
        """All signing keys that are named and not revoked, whatever their dates, newest first."""
        former = (former.key for former in self.former_keys if former.use == "signing")
        return (self.signing_key, *former)

    def fault_on(self, key: str, day: date) -> str:
        """Why a signing key is not good on a day; empty if it is.

        Args:
            key: One of `signed_ever`.
            day: The day.
        """
        if key == self.signing_key:
            first, last = self.signing_key_from, self.signing_key_expires
        else:
            dates = [f.until for f in self.former_keys if (f.use, f.key) == ("signing", key)]
            if not dates:
                return "is none that the plan names"
            first, last = None, max(dates)
        if first is not None and day < first:
            return f"is good from {first} on"
        return f"has expired on {last}" if last is not None and day > last else ""

    def signing(self, day: date) -> tuple[str, ...]:
        """The signing keys that are good on a day, newest first."""
        return tuple(key for key in self.signed_ever if not self.fault_on(key, day))

    def opening(self, day: date) -> tuple[str | None, ...]:
        """The encryption keys to which a run of a day may encrypt; None stands for none."""
        former = (f.key for f in self.former_keys if f.use == "encryption" and day <= f.until)
        return (self.encryption_key, *former)


#: Groups of five digits: 30 digits are worth 99 bits.
_GROUPS = 6


def fingerprint(signing_key: str, encryption_key: str | None) -> str:
    """Six groups of five digits that stand for both public keys of a party.

    Args:
        signing_key: Base64.
        encryption_key: Base64; None for a party without.
    """
    content = f"opboost fingerprint 1\n{signing_key}\n{encryption_key or ''}\n"
    number = int.from_bytes(hashlib.sha256(content.encode()).digest(), "big")
    digits = f"{number % 10 ** (5 * _GROUPS):0{5 * _GROUPS}d}"
    return " ".join(digits[at : at + 5] for at in range(0, len(digits), 5))
