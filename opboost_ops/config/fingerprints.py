"""A party's fingerprint: one number over its public keys, to be read out over the telephone."""

import hashlib

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
