"""So many shares tell a secret; fewer fit any."""

import itertools
import secrets

import pytest

from opboost_ops.aggregation import shamir


def test_the_prime_is_one():
    # Miller and Rabin with the bases that are enough for chance not to matter.
    odd, twos = shamir.PRIME - 1, 0
    while odd % 2 == 0:
        odd, twos = odd // 2, twos + 1
    for base in range(2, 66):
        powers = [pow(base, odd << i, shamir.PRIME) for i in range(twos)]
        assert powers[0] == 1 or shamir.PRIME - 1 in powers
    assert shamir.PRIME < 2**256 < shamir.PRIME + 190


@pytest.mark.parametrize(("threshold", "count"), [(1, 3), (2, 3), (3, 4), (5, 5), (20, 32)])
def test_any_so_many_shares_tell_the_secret(threshold, count):
    coefficients = [secrets.randbelow(shamir.PRIME) for _ in range(threshold)]
    shares = dict(enumerate(shamir.dealt(coefficients, count), start=1))
    for points in itertools.islice(itertools.combinations(shares, threshold), 20):
        assert shamir.joined({p: shares[p] for p in points}) == coefficients[0]
    assert shamir.joined(shares) == coefficients[0]


def test_one_share_less_fits_every_secret_equally():
    """For each secret there is one polynomial through the others' shares: they tell nothing."""
    coefficients = [11, 22, 33]
    two = dict(enumerate(shamir.dealt(coefficients, 2), start=1))
    for guess in (0, 11, shamir.PRIME - 1):
        # Through (0, guess) and both shares goes a parabola, whose third share fits, too.
        third = (3 * two[2] - 3 * two[1] + guess) % shamir.PRIME
        assert shamir.joined({**two, 3: third}) == guess
    assert shamir.joined(two) != 11


def test_an_element_is_32_bytes():
    assert shamir.element(b"\xff" * 32) == 188
    assert shamir.element(bytes(31) + b"\x07") == 7
