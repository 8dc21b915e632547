"""Global-map's channel against its closed form, in a precision of its own."""

from decimal import Decimal, localcontext
from fractions import Fraction

import pytest
from pydantic import ValidationError

from opboost_ops.domain import Domain
from opboost_ops.mechanisms.channel import FLOOR, Channel, counts_of
from opboost_ops.mechanisms.global_map import GlobalMap

TOTAL = 2**64
EPSILONS = [0.01, 0.08, 0.64, 1.0, 2.56, 5.12, 30.0]


@pytest.mark.parametrize("epsilon", [*EPSILONS, 1000.0])
@pytest.mark.parametrize("size", [2, 3, 10, 64, 200])
def test_rows_sum_to_two_to_the_64(size: int, epsilon: float) -> None:
    channel = GlobalMap(epsilon=epsilon).channel(Domain(1, size))
    assert len(channel.counts) == size
    for row in channel.counts:
        assert sum(row) == TOTAL
        assert min(row) >= FLOOR
    assert channel.outputs.tolist() == list(range(1, size + 1))


@pytest.mark.parametrize("epsilon", EPSILONS)
@pytest.mark.parametrize(("lower", "upper"), [(1, 2), (1, 10), (-5, 20)])
def test_counts_are_the_closed_form(lower: int, upper: int, epsilon: float) -> None:
    """Pr[y | x] = exp(-|x-y| epsilon/2) / sum, mixed with the floor, to within one count."""
    channel = GlobalMap(epsilon=epsilon).channel(Domain(lower, upper))
    size = upper - lower + 1
    with localcontext() as context:
        context.prec = 120
        rate = Decimal(epsilon) / 2
        for i, row in enumerate(channel.counts):
            weights = [(-rate * abs(i - j)).exp() for j in range(size)]
            spread = Decimal(TOTAL - FLOOR * size) / sum(weights)
            exact = [FLOOR + spread * weight for weight in weights]
            likeliest = max(range(size), key=lambda j: exact[j])
            for j, (count, wanted) in enumerate(zip(row, exact, strict=True)):
                slack = Decimal(size) if j == likeliest else Decimal("0.5000001")
                assert abs(count - wanted) <= slack


def test_two_values_by_hand() -> None:
    """On two values, Pr[stay] = 1 / (1 + e^(-epsilon / 2)) but for the floor."""
    (stay, go), _ = GlobalMap(epsilon=1.0).channel(Domain(1, 2)).counts
    assert Fraction(stay, TOTAL) == pytest.approx(0.6224593312018546, abs=1e-15)
    assert stay + go == TOTAL


def test_the_law_is_symmetric_and_prefers_the_truth() -> None:
    counts = GlobalMap(epsilon=0.7).channel(Domain(1, 9)).counts
    for x, row in enumerate(counts):
        assert row == tuple(reversed(counts[-1 - x]))
        assert max(range(9), key=lambda y: row[y]) == x
        assert list(row[: x + 1]) == sorted(row[: x + 1])
        assert list(row[x:]) == sorted(row[x:], reverse=True)


def test_both_samplers_of_the_paper_are_one_law() -> None:
    domain = Domain(1, 10)
    one = GlobalMap(epsilon=0.5, sampler="exponential").channel(domain)
    other = GlobalMap(epsilon=0.5, sampler="bounded_laplace").channel(domain)
    assert one.counts == other.counts
    assert one.digest() == other.digest()
    assert one.digest() != GlobalMap(epsilon=0.51).channel(domain).digest()
    assert one.digest() != GlobalMap(epsilon=0.5).channel(Domain(2, 11)).digest()


@pytest.mark.parametrize("epsilon", [0, -1, 1001, float("nan"), float("inf")])
def test_epsilon_must_be_positive_and_finite(epsilon: float) -> None:
    with pytest.raises(ValidationError):
        GlobalMap(epsilon=epsilon)


def test_a_weight_of_zero_is_outside_the_support() -> None:
    counts = counts_of([Decimal(3), Decimal(0), Decimal(1)])
    assert counts[1] == 0
    assert sum(counts) == TOTAL
    assert counts[2] == FLOOR + round(Fraction(TOTAL - 2 * FLOOR, 4))


def test_a_channel_that_does_not_sum_is_refused() -> None:
    values = Domain(1, 2).values()
    with pytest.raises(ValueError, match="sums to"):
        Channel(values, values, ((TOTAL - 1, 0), (0, TOTAL)))
    with pytest.raises(ValueError, match="sums to"):
        Channel(values, values, ((TOTAL + 1, -1), (0, TOTAL)))
