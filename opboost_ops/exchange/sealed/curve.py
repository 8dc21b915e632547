"""Curve25519 by u coordinates: hash to the curve, scalar multiplication, and inverse scalars.

Hashing is ``curve25519_XMD:SHA-512_ELL2_NU_`` of RFC 9380 without the last step, clearing the
cofactor: every scalar is clamped, hence a multiple of 8, so multiplication clears the cofactor.
Multiplication is X25519 (RFC 7748) of `cryptography`. Hashing is written in Python, with GMP
integers if the extra `gmpy2` is installed. Its time depends on the message, but only a party that
knows the message hashes it.
"""

import hashlib
from collections.abc import Iterable, Iterator, Sequence

import numpy as np
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey

try:
    import gmpy2
except ImportError:
    gmpy2 = None

#: The field's prime, and the order of the prime subgroup.
P = 2**255 - 19
ORDER = 2**252 + 27742317777372353535851937790883648493

#: Bytes of a point and of a scalar.
POINT = 32

SUITE = "curve25519_XMD:SHA-512_ELL2_NU_"

_J = 486662
_LONGEST_TAG = 255

#: u coordinates of the points of small order, on the curve and on its twist.
_SMALL = (
    0,
    1,
    325606250916557431795983626356110631294008115727848805560023387167927233504,
    39382357235489614581723060781553021112529911719440698176882885853963445705823,
    P - 1,
)


def hash_to_field(message: bytes, tag: bytes) -> int:
    """Hash a message to an element of the field (RFC 9380, 5.2 and 5.3.1, with SHA-512).

    Args:
        message: Any bytes.
        tag: Domain separation tag, at most 255 bytes.

    Raises:
        ValueError: The tag is too long.
    """
    return next(_field_elements((message,), tag))


def hash_to_curve(messages: Sequence[bytes], tag: bytes) -> list[bytes]:
    """Hash messages to points (RFC 9380, 6.7.1: Elligator 2) without clearing the cofactor.

    Args:
        messages: Any bytes.
        tag: Domain separation tag, at most 255 bytes.

    Returns:
        u coordinates, 32 bytes each, little-endian.

    Raises:
        ValueError: The tag is too long.
    """
    # x1 = -J / (1 + 2 r^2), with one inversion for all messages (Montgomery's trick); 1 + 2 r^2 is
    # never 0, because -1/2 is not a square.
    # A GMP modulus makes all results GMP integers.
    p = gmpy2.mpz(P) if gmpy2 else P
    is_square = _is_square_by_gmp if gmpy2 else _is_square
    below = [(1 + 2 * r * r) % p for r in _field_elements(messages, tag)]
    product, before = 1, []
    for d in below:
        before.append(product)
        product = product * d % p
    inverse = pow(product, -1, p)
    points = [b""] * len(below)
    for i in range(len(below) - 1, -1, -1):
        x = -_J * inverse * before[i] % p
        inverse = inverse * below[i] % p
        if not is_square(x * (x * (x + _J) + 1) % p):
            x = (-x - _J) % p
        points[i] = int(x).to_bytes(POINT, "little")
    return points


def multiply(scalar: bytes, points: Iterable[bytes]) -> list[bytes]:
    """Multiply points by a scalar: X25519 (RFC 7748, 5).

    Args:
        scalar: 32 bytes, which are clamped here.
        points: u coordinates, 32 bytes each.

    Raises:
        ValueError: A point is of small order, or has a wrong length.
    """
    key = X25519PrivateKey.from_private_bytes(scalar).exchange
    load = X25519PublicKey.from_public_bytes
    return [key(load(point)) for point in points]


def clamped(scalar: bytes) -> int:
    """Return the number by which X25519 multiplies: a multiple of 8 in [2^254, 2^255)."""
    number = int.from_bytes(scalar, "little")
    return (number & (2**254 - 8)) | 2**254


def inverse_scalar(scalar: bytes) -> bytes | None:
    """Return the scalar that reverses multiplication by another one.

    v = (8 clamp(a))^-1 mod l and l - v give the same u coordinate. Except for a share of about
    2^-126 of all scalars, one of the two is a clamped scalar divided by 8.

    Args:
        scalar: 32 bytes.

    Returns:
        32 bytes; None if there is no such scalar.
    """
    v = pow(8 * clamped(scalar), -1, ORDER)
    half = next((m for m in (v, ORDER - v) if 2**251 <= m < 2**252), None)
    return None if half is None else (8 * half).to_bytes(POINT, "little")


def are_points(points: np.ndarray) -> bool:
    """Return True if all u coordinates are canonical, and no point is of small order.

    X25519 also accepts u + p and a set top bit for u, so a point would have several encodings.

    Args:
        points: uint8, shape (n, 32).
    """
    last = points[:, -1]
    # Not canonical: p to 2^255 - 1, which differ only in the lowest byte, and everything above.
    high = (last == 0x7F) & (points[:, 1:-1] == 0xFF).all(axis=1) & (points[:, 0] >= 0xED)
    if bool((last >= 0x80).any()) or bool(high.any()):
        return False
    small = (np.frombuffer(u.to_bytes(POINT, "little"), dtype=np.uint8) for u in _SMALL)
    return not any(bool((points == point).all(axis=1).any()) for point in small)


def _field_elements(messages: Iterable[bytes], tag: bytes) -> Iterator[int]:
    if len(tag) > _LONGEST_TAG:
        raise ValueError("the tag is too long")
    suffix = tag + bytes([len(tag)])
    # expand_message_xmd, 48 bytes: one block of SHA-512 after a block of zeros.
    start = hashlib.sha512(bytes(128))
    end = (48).to_bytes(2, "big") + b"\x00" + suffix
    last = b"\x01" + suffix
    sha512 = hashlib.sha512
    for message in messages:
        first = start.copy()
        first.update(message + end)
        yield int.from_bytes(sha512(first.digest() + last).digest()[:48], "big") % P


def _is_square(a: int) -> bool:
    """Return True for squares of the field and 0: the Jacobi symbol by Euclid's algorithm."""
    n, positive = P, True
    while a:
        low = a & -a
        if low != 1:
            twos = low.bit_length() - 1
            a >>= twos
            if twos & 1 and n & 7 in (3, 5):
                positive = not positive
        if a & n & 3 == 3:
            positive = not positive
        a, n = n % a, a
    return positive


def _is_square_by_gmp(a: int) -> bool:
    """Return the same as `_is_square`, by GMP's Jacobi symbol."""
    return bool(gmpy2.jacobi(a, P) >= 0)
