"""Shamir's sharing of a secret: so many shares tell it, fewer tell nothing (Shamir, 1979).

Over the integers modulo a prime of 256 bits, so that a key of 32 bytes is one element.
"""

from collections.abc import Mapping, Sequence

#: The greatest prime below 2^256.
PRIME = 2**256 - 189

#: Bytes of an element.
BYTES = 32


def element(raw: bytes) -> int:
    """What 32 uniform bytes are modulo the prime: uniform but for 2^-248.

    Args:
        raw: They.
    """
    return int.from_bytes(raw, "big") % PRIME


def dealt(coefficients: Sequence[int], count: int) -> list[int]:
    """Shares: a polynomial's values at 1, 2, ...

    Args:
        coefficients: The secret, then uniform elements; as many in all as shares tell the secret.
        count: How many shares.
    """
    shares = []
    for point in range(1, count + 1):
        value = 0
        for coefficient in reversed(coefficients):
            value = (value * point + coefficient) % PRIME
        shares.append(value)
    return shares


def joined(shares: Mapping[int, int]) -> int:
    """The secret behind shares, if there are enough; anything else otherwise.

    Args:
        shares: By point, from 1.
    """
    total = 0
    for point, share in shares.items():
        above = below = 1
        for other in shares:
            if other != point:
                above = above * other % PRIME
                below = below * (other - point) % PRIME
        total = (total + share * above * pow(below, -1, PRIME)) % PRIME
    return total
