"""Curve25519 against the RFCs' own vectors, and against its definition."""

import os

import numpy as np
import pytest

from opboost_ops.exchange.sealed import curve

#: RFC 9380, J.4.2: message, u, Q.x and P.x of curve25519_XMD:SHA-512_ELL2_NU_.
TAG = b"QUUX-V01-CS02-with-curve25519_XMD:SHA-512_ELL2_NU_"
VECTORS = [
    (
        b"",
        "608d892b641f0328523802a6603427c26e55e6f27e71a91a478148d45b5093cd",
        "51125222da5e763d97f3c10fcc92ea6860b9ccbbd2eb1285728f566721c1e65b",
        "1bb913f0c9daefa0b3375378ffa534bda5526c97391952a7789eb976edfe4d08",
    ),
    (
        b"abc",
        "46f5b22494bfeaa7f232cc8d054be68561af50230234d7d1d63d1d9abeca8da5",
        "7d56d1e08cb0ccb92baf069c18c49bb5a0dcd927eff8dcf75ca921ef7f3e6eeb",
        "7c22950b7d900fa866334262fcaea47a441a578df43b894b4625c9b450f9a026",
    ),
    (
        b"abcdef0123456789",
        "235fe40c443766ce7e18111c33862d66c3b33267efa50d50f9e8e5d252a40aaa",
        "3fbe66b9c9883d79e8407150e7c2a1c8680bee496c62fabe4619a72b3cabe90f",
        "31ad08a8b0deeb2a4d8b0206ca25f567ab4e042746f792f4b7973f3ae2096c52",
    ),
    (
        b"q128_" + b"q" * 128,
        "001e92a544463bda9bd04ddbe3d6eed248f82de32f522669efc5ddce95f46f5b",
        "227e0bb89de700385d19ec40e857db6e6a3e634b1c32962f370d26f84ff19683",
        "027877759d155b1997d0d84683a313eb78bdb493271d935b622900459d52ceaa",
    ),
    (
        b"a512_" + b"a" * 512,
        "1a68a1af9f663592291af987203393f707305c7bac9c8d63d6a729bdc553dc19",
        "3bcd651ee54d5f7b6013898aab251ee8ecc0688166fce6e9548d38472f6bd196",
        "5fd892c0958d1a75f54c3182a18d286efab784e774d1e017ba2fb252998b5dc1",
    ),
]


@pytest.fixture(params=["gmpy2", "pure"])
def integers(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the extra, and without it."""
    if request.param == "pure":
        monkeypatch.setattr(curve, "gmpy2", None)
    else:
        pytest.importorskip("gmpy2")


def doubled(x: int) -> int:
    """x of 2Q on y^2 = x^3 + 486662 x^2 + x."""
    top = (x * x - 1) ** 2
    return top * pow(4 * x * (x * x + 486662 * x + 1), -1, curve.P) % curve.P


@pytest.mark.usefixtures("integers")
@pytest.mark.parametrize(("message", "u", "q", "p"), VECTORS)
def test_the_vectors_of_rfc_9380(message: bytes, u: str, q: str, p: str) -> None:
    assert curve.hash_to_field(message, TAG) == int(u, 16)
    (point,) = curve.hash_to_curve([message], TAG)
    x = int.from_bytes(point, "little")
    assert x == int(q, 16)
    assert doubled(doubled(doubled(x))) == int(p, 16)


@pytest.mark.usefixtures("integers")
def test_many_messages_are_hashed_as_each_alone() -> None:
    found = curve.hash_to_curve([message for message, *_ in VECTORS], TAG)
    assert [int.from_bytes(point, "little") for point in found] == [
        int(q, 16) for _, _, q, _ in VECTORS
    ]
    assert curve.hash_to_curve([], TAG) == []


def test_a_tag_is_at_most_255_bytes_long() -> None:
    curve.hash_to_field(b"x", b"t" * 255)
    with pytest.raises(ValueError, match="too long"):
        curve.hash_to_field(b"x", b"t" * 256)


def test_a_thousand_iterations_of_rfc_7748() -> None:
    k = u = (9).to_bytes(32, "little")
    first = ""
    for i in range(1000):
        k, u = curve.multiply(k, [u])[0], k
        first = first or (k.hex() if i == 0 else "")
    assert first == "422c8e7a6227d7bca1350b3e2bb7279f7897b87bb6854b783c60e80311ae3079"
    assert k.hex() == "684cf59ba83309552800ef566f2f4d3c1c3887c49360e3875f2eb94d99532c51"


def test_squares_are_those_of_eulers_criterion() -> None:
    numbers = [int.from_bytes(os.urandom(32), "little") % curve.P for _ in range(500)]
    for n in (0, 1, 2, curve.P - 1, *numbers):
        expected = pow(n, (curve.P - 1) // 2, curve.P) in (0, 1)
        assert curve._is_square(n) == expected
        assert curve.gmpy2 is None or curve._is_square_by_gmp(n) == expected


def test_points_of_messages_are_on_the_curve_and_not_on_its_twist() -> None:
    for point in curve.hash_to_curve([b"%d" % i for i in range(200)], b"tag"):
        x = int.from_bytes(point, "little")
        assert curve._is_square(x * (x * x + 486662 * x + 1) % curve.P)


def test_a_clamped_inverse_takes_a_scalar_away() -> None:
    points = curve.hash_to_curve([b"1", b"2", b"3"], b"tag")
    for _ in range(100):
        a, b = os.urandom(32), os.urandom(32)
        inverse = curve.inverse_scalar(a)
        assert inverse is not None
        assert curve.clamped(inverse) == int.from_bytes(inverse, "little")
        there = curve.multiply(b, curve.multiply(a, points))
        assert curve.multiply(inverse, there) == curve.multiply(b, points)


def test_a_scalar_whose_inverse_is_no_clamped_one_is_told() -> None:
    # Made backwards: 8 a v = 1 for v in the gap, of which one in 2^126 scalars meets one.
    gap = curve.ORDER - 2**252 + 5
    for v in (gap - 6, 3):
        a = pow(v, -1, curve.ORDER) * pow(8, -1, curve.ORDER) % curve.ORDER
        clamped = next((a + i * curve.ORDER for i in range(64)
                        if (a + i * curve.ORDER) % 8 == 0
                        and 2**254 <= a + i * curve.ORDER < 2**255), None)  # fmt: skip
        if clamped is not None:
            assert curve.inverse_scalar(clamped.to_bytes(32, "little")) is None
            return
    pytest.fail("no such scalar was made")


ALL_SMALL = [
    "00" * 32,
    "01" + "00" * 31,
    "e0eb7a7c3b41b8ae1656e3faf19fc46ada098deb9c32b1fd866205165f49b800",
    "5f9c95bca3508c24b1d0b1559c83ef5b04445cc4581c8e86d8224eddd09f1157",
    "ec" + "ff" * 30 + "7f",
    "ed" + "ff" * 30 + "7f",
    "ee" + "ff" * 30 + "7f",
]


def as_points(*points: bytes) -> np.ndarray:
    return np.frombuffer(b"".join(points), dtype=np.uint8).reshape(-1, 32)


@pytest.mark.parametrize("small", ALL_SMALL)
def test_a_point_of_small_order_is_refused_twice(small: str) -> None:
    point = bytes.fromhex(small)
    with pytest.raises(ValueError, match="shared key"):
        curve.multiply(os.urandom(32), [point])
    good = curve.hash_to_curve([b"1", b"2"], b"tag")
    assert curve.are_points(as_points(*good))
    assert not curve.are_points(as_points(good[0], point, good[1]))


@pytest.mark.parametrize("name", ["top bit", "p + 2", "2^255 - 1"])
def test_another_name_of_a_point_is_refused(name: str) -> None:
    (good,) = curve.hash_to_curve([b"1"], b"tag")
    other = {
        "top bit": good[:31] + bytes([good[31] | 0x80]),
        "p + 2": (curve.P + 2).to_bytes(32, "little"),
        "2^255 - 1": b"\xff" * 31 + b"\x7f",
    }[name]
    # X25519 itself takes them.
    assert len(curve.multiply(os.urandom(32), [other])[0]) == 32
    assert not curve.are_points(as_points(good, other))
    assert curve.are_points(as_points(good, (curve.P - 2).to_bytes(32, "little")))
