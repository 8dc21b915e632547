"""Every mechanism's table, on the very integers that are sampled, against exact closed forms.

What is compared is rational throughout: e^x comes from a Taylor series of its own, in integers,
with an explicit bound of its error; no float and no code under test takes part in a bound.

Losses are checked between neighbouring inputs. That is enough for all: a ratio over a distance t
is a product of t ratios of neighbours, and e^(t epsilon) of t times e^epsilon.
"""

import itertools
import math
from collections.abc import Iterator
from decimal import Decimal
from fractions import Fraction
from functools import cache
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from pydantic import ValidationError

from opboost_ops.domain import Domain
from opboost_ops.errors import ConfigError
from opboost_ops.mechanisms import (
    AdjMap,
    BucketResponse,
    Designed,
    GeneralisedResponse,
    Geometric,
    GlobalMap,
    LocalMap,
    Mechanism,
    MissingBit,
    Piecewise,
    UnaryEncoding,
)
from opboost_ops.mechanisms.channel import TOTAL, Channel
from opboost_ops.mechanisms.designed import MOST_DESIGNED
from opboost_ops.mechanisms.parameters import Partitions
from opboost_ops.privacy.design import design
from opboost_ops.privacy.loss import loss_curve, worst_ratios
from tests.laws import adj_law

EPSILONS = (0.01, 0.1, 1.0, 10.0)
ALPHAS = (0.4, 1.0, 10.0)
LOWER = -3
DOMAIN = Domain(1, 10)

#: Least count of an output that has any, as the channel's formula says.
FLOOR = 4096

#: Fraction bits of the integers below.
BITS = 200


@cache
def e_to(x: Fraction) -> tuple[int, int]:
    """Integers a and b with a <= 2^200 e^x <= b, for x >= 0."""
    low = high = sum_low = sum_high = 1 << BITS
    k = 0
    # The terms after term k sum to at most term k once k + 1 >= 2 x: each is at most half the last.
    while high > 1 or k + 1 < 2 * x:
        k += 1
        low = low * x.numerator // (x.denominator * k)
        high = -(-high * x.numerator // (x.denominator * k))
        sum_low, sum_high = sum_low + low, sum_high + high
    return sum_low, sum_high + high


def at_most(a: int, b: int, power: tuple[int, int]) -> bool:
    """Whether a / b <= e^x and b / a <= e^x, proven with the lower bound of e^x."""
    return max(a, b) << BITS <= min(a, b) * power[0]


def grid(size: int) -> Iterator[Mechanism]:
    """Mechanisms on a domain of this size, at every epsilon.

    Up to 20 values, all combinations. Building a table takes time by the square of the size, so
    larger domains take one theta, alpha and number of buckets each, and above 40 values all but
    Global-map take every other epsilon. What is taken changes from size to size by steps without
    a common factor, so that every theta meets every alpha and every epsilon.
    """
    thetas = [1, 2, 3, size // 2 or 1, size]
    buckets = [2, min(5, size), size]
    shapes = list(itertools.product(thetas, ALPHAS))
    if size > 20:
        thetas, buckets = [thetas[size % 5]], [buckets[size % 3]]
        shapes = [(thetas[0], ALPHAS[size % 3])]
    yield from (GlobalMap(epsilon=epsilon) for epsilon in (*EPSILONS, 1000.0))
    yield from (Geometric(epsilon=epsilon) for epsilon in (*EPSILONS, 0.001))
    yield from designs(size)
    for epsilon in EPSILONS[size % 2 :: 2] if size > 40 else EPSILONS:
        yield GeneralisedResponse(epsilon=epsilon)
        yield Piecewise(epsilon=epsilon)
        yield from (BucketResponse(epsilon=epsilon, buckets=q) for q in {*buckets})
        yield from (BucketResponse(epsilon=epsilon, edges=edges) for edges in uneven(size))
        yield from (LocalMap(epsilon=epsilon, theta=theta) for theta in {*thetas})
        for theta, alpha in dict.fromkeys(shapes):
            yield AdjMap(epsilon=epsilon, theta=theta, alpha=alpha)


def designs(size: int) -> Iterator[Mechanism]:
    """Channels of some curves, as they are made: to be certified here once more, by other code."""
    if size > 20 and size != MOST_DESIGNED:
        return
    prior = [1 + x % 3 for x in range(size)]
    for epsilon, most in ((0.3, 1.0), (0.64, 2.0), (10.0, 4.0), (5.0, 40.0)):
        made = design(Domain(LOWER, LOWER + size - 1), epsilon, most, "absolute", prior)
        # Under a tight curve it may be best to answer the likeliest value always.
        assert made is not None or epsilon < 1
        if made is not None:
            yield made.mechanism


def uneven(size: int) -> set[tuple[int, ...]]:
    """Edges of buckets that grow from one value on, of one value before the last, of one each."""
    last = LOWER + size - 1
    growing = tuple(e for e in (LOWER + k * (k + 1) // 2 for k in range(1, size)) if e <= last)
    single = tuple(range(LOWER + 1, last + 1)) if size <= 20 else (LOWER + 1,)
    return {growing, (last,), single}


def check_table(channel: Channel, domain: Domain) -> None:
    """The alias table draws exactly the channel's counts, all of them outputs of the domain."""
    width = len(channel.outputs)
    rebuilt = channel.alias.rebuilt_counts()
    assert [tuple(row[:width]) for row in rebuilt] == list(channel.counts)
    assert not any(any(row[width:]) for row in rebuilt)
    assert len(channel.counts) == domain.size
    assert all(sum(row) == TOTAL for row in channel.counts)
    assert domain.lower <= channel.outputs.min() <= channel.outputs.max() <= domain.upper


def check_global(channel: Channel, epsilon: Fraction) -> None:
    power = e_to(epsilon)
    for row, other in pairwise(channel.counts):
        assert all(at_most(a, b, power) for a, b in zip(row, other, strict=True))


def check_geometric(channel: Channel, epsilon: Fraction) -> None:
    """A step costs at most epsilon, and each count is less than one off its formula."""
    check_global(channel, epsilon)
    size, one = len(channel.counts), 1 << BITS
    low, high = e_to(epsilon)
    spread = TOTAL - FLOOR * size
    for x, row in enumerate(channel.counts):
        for y, count in enumerate(row):
            # With e = e^epsilon: (e - 1) / (e + 1) e^-d inside, e^(1 - d) / (e + 1) at an end.
            far_low, far_high = e_to(epsilon * abs(x - y))
            end = y in (0, size - 1)
            top_low, top_high = (low, high) if end else (low - one, high - one)
            assert (count - FLOOR + 1) * (high + one) * far_high >= spread * top_low * one
            assert (count - FLOOR - 1) * (low + one) * far_low <= spread * top_high * one


def check_any_two(channel: Channel, epsilon: Fraction) -> None:
    for column in zip(*channel.counts, strict=True):
        assert at_most(max(column), min(column), e_to(epsilon))


def check_response(channel: Channel, epsilon: Fraction, homes: list[int]) -> None:
    """Stay with e^eps / (e^eps + q - 1); else one of the other q - 1, to within half a count."""
    q = len(channel.outputs)
    low, high = e_to(epsilon)
    spread = TOTAL - FLOOR * q
    for home, row in zip(homes, channel.counts, strict=True):
        (other,) = {count for b, count in enumerate(row) if b != home}
        assert row[home] == TOTAL - (q - 1) * other
        assert (2 * (other - FLOOR) + 1) * (high + (q - 1 << BITS)) >= 2 * spread << BITS
        assert (2 * (other - FLOOR) - 1) * (low + (q - 1 << BITS)) <= 2 * spread << BITS
    check_any_two(channel, epsilon)


def check_local(channel: Channel, epsilon: Fraction, theta: int) -> None:
    size, power = len(channel.counts), e_to(epsilon)
    for x, row in enumerate(channel.counts):
        own = [y // theta == x // theta for y in range(size)]
        assert all(c >= FLOOR if mine else c == 0 for mine, c in zip(own, row, strict=True))
    for x, (row, other) in enumerate(pairwise(channel.counts)):
        if x // theta == (x + 1) // theta:
            assert all(at_most(a, b, power) for a, b in zip(row, other, strict=True) if a or b)


def check_adj(channel: Channel, mechanism: AdjMap) -> None:
    """Definition 4.4: what a step costs inside a partition, and what it costs across an edge.

    Inside a partition, a step changes the weight of a value of that partition by at most
    e^(near / 2) and their sum by as much: e^near together. Elsewhere it changes nothing, for
    e^(-|x - y| near / 2) over its sum does not depend on x outside the partition of y. Across an
    edge, x leaves the end of one partition for the beginning of the next, which no value inside a
    partition can tell; the law of partitions changes by e^far. Steps multiply, so
    loss(x, x') <= edges far + (|x - x'| - edges) near, edges being those between x and x'.
    """
    size, theta = len(channel.counts), mechanism.theta or 0
    alpha = Fraction(mechanism.alpha)
    near = Fraction(mechanism.epsilon) / (alpha + Fraction(theta, size))
    inside, across = e_to(near), e_to(alpha * theta * near)
    for x, (row, other) in enumerate(pairwise(channel.counts)):
        home = x // theta
        if home == (x + 1) // theta:
            for y, (a, b) in enumerate(zip(row, other, strict=True)):
                assert at_most(a, b, inside)
                # But for the rounding of all the others, which the likeliest value takes.
                assert y // theta == home or abs(a - b) <= size // 2
        else:
            assert all(at_most(a, b, across) for a, b in zip(row, other, strict=True))


def check_bound(mechanism: Mechanism, channel: Channel) -> None:
    """The mechanism's own bound, whichever that is."""
    epsilon, size = Fraction(mechanism.epsilon), len(channel.counts)
    match mechanism:
        case GlobalMap():
            check_global(channel, epsilon)
        case Geometric():
            check_geometric(channel, epsilon)
        case Designed(most=most):
            check_global(channel, epsilon)
            check_any_two(channel, Fraction(most))
        case GeneralisedResponse():
            check_response(channel, epsilon, list(range(size)))
        case BucketResponse(buckets=int(q)):
            check_response(channel, epsilon, [x * q // size for x in range(size)])
        case BucketResponse(edges=tuple(edges)):
            homes = [sum(e <= LOWER + x for e in edges) for x in range(size)]
            check_response(channel, epsilon, homes)
            assert len(channel.outputs) == len(edges) + 1
            assert [sum(e <= y for e in edges) for y in channel.outputs] == [*range(len(edges) + 1)]
        case Piecewise():
            check_any_two(channel, epsilon)
        case LocalMap(theta=int(theta)):
            check_local(channel, epsilon, theta)
        case AdjMap():
            check_adj(channel, mechanism)
        case _:
            raise AssertionError(f"no bound is known of {mechanism}")


#: Every size up to 20, some larger ones; all the others where there is time.
SIZES = [
    pytest.param(size, marks=[] if size <= 20 or size in (33, 64, 100) else pytest.mark.slow)
    for size in range(2, 101)
]


@pytest.mark.parametrize("size", SIZES)
def test_the_table_that_is_sampled_is_the_channel_and_keeps_its_bound(size: int) -> None:
    domain = Domain(LOWER, LOWER + size - 1)
    for mechanism in grid(size):
        channel = mechanism.channel(domain)
        check_table(channel, domain)
        check_bound(mechanism, channel)
        if not isinstance(mechanism, LocalMap):  # Its zeros are its structure, checked above.
            assert min(map(min, channel.counts)) >= FLOOR


@pytest.mark.slow
def test_a_thousand_values() -> None:
    """No tail rounds to zero, although e^(-epsilon 999 / 2) is below 2^-64."""
    domain = Domain(1, 1000)
    channel = GlobalMap(epsilon=0.1).channel(domain)
    check_table(channel, domain)
    check_global(channel, Fraction(0.1))
    assert min(map(min, channel.counts)) >= FLOOR


@pytest.mark.parametrize("size", range(2, 21))
def test_global_map_at_every_distance(size: int) -> None:
    """loss(t) <= t epsilon, and the counts are those of the formula to within half a count."""
    for epsilon in map(Fraction, EPSILONS):
        channel = GlobalMap(epsilon=float(epsilon)).channel(Domain(LOWER, LOWER + size - 1))
        for t, ratio in enumerate(worst_ratios(channel.counts), start=1):
            assert ratio is not None
            assert at_most(ratio.numerator, ratio.denominator, e_to(t * epsilon))
        one, spread = 1 << 2 * BITS, TOTAL - FLOOR * size
        lows, highs = zip(*(e_to(epsilon / 2 * d) for d in range(size)), strict=True)
        for x, row in enumerate(channel.counts):
            least = [one // highs[abs(x - y)] for y in range(size)]
            most = [-(-one // lows[abs(x - y)]) for y in range(size)]
            for y in {*range(size)} - {x}:
                twice = 2 * (row[y] - FLOOR)
                assert (twice + 1) * sum(most) >= 2 * spread * least[y]
                assert (twice - 1) * sum(least) <= 2 * spread * most[y]


@pytest.mark.parametrize("epsilon", [16.0, 60.0, 199.99, 200.0, 366.0, 1000.0])
@pytest.mark.parametrize("size", [2, 10, 64])
def test_piecewise_at_a_large_epsilon(size: int, epsilon: float) -> None:
    """It keeps its bound, loses no output, and only comes nearer to the value itself."""
    domain = Domain(LOWER, LOWER + size - 1)
    channel = Piecewise(epsilon=epsilon).channel(domain)
    check_table(channel, domain)
    check_any_two(channel, Fraction(epsilon))
    assert min(map(min, channel.counts)) >= FLOOR
    # Outside of the interval of high density, as wide as 2 / (e^(eps/2) - 1), lies at most
    # e^(-eps/2): with every value's own cell wider than that, nothing else is likely.
    if (math.exp(epsilon / 2) - 1) / 2 >= size - 1:
        away = math.exp(-epsilon / 2) + 2 * size * FLOOR / TOTAL
        assert all(1 - row[x] / TOTAL <= away + 1e-15 for x, row in enumerate(channel.counts))


@pytest.mark.parametrize("epsilon", EPSILONS)
def test_bits_have_their_closed_forms(epsilon: float) -> None:
    """Stay with e^s / (e^s + 1): s is epsilon, or 0 for the bit of unary encoding that is set."""
    exact, bits = Fraction(epsilon), Domain(0, 1)
    for mechanism, stays in (
        (MissingBit(epsilon=epsilon), (exact, exact)),
        (UnaryEncoding(epsilon=epsilon), (exact, Fraction(0))),
    ):
        channel = mechanism.channel(bits)
        check_table(channel, bits)
        for bit, (row, stay) in enumerate(zip(channel.counts, stays, strict=True)):
            low, high = e_to(stay)
            twice, spread = 2 * (row[1 - bit] - FLOOR), TOTAL - 2 * FLOOR
            assert (twice + 1) * (high + (1 << BITS)) >= 2 * spread << BITS
            assert (twice - 1) * (low + (1 << BITS)) <= 2 * spread << BITS


def test_the_powers_that_bounds_are_made_of() -> None:
    for x in (Fraction(0), Fraction(1, 10**6), Fraction(0.1), Fraction(10), Fraction(2001, 7)):
        low, high = e_to(x)
        assert low <= high <= low * (1 + Fraction(1, 2**150))
        # Decimal's e^x is correctly rounded, and another piece of code.
        wanted = Fraction((Decimal(x.numerator) / Decimal(x.denominator)).exp())
        assert abs(Fraction(low, 1 << BITS) / wanted - 1) < Fraction(1, 10**20)
    assert at_most(2718, 1000, e_to(Fraction(1)))
    assert not at_most(2719, 1000, e_to(Fraction(1)))


@pytest.mark.parametrize("epsilon", [0.08, 1.0])
def test_adj_map_against_its_definition(epsilon: float) -> None:
    domain, theta, alpha = Domain(1, 10), 4, 2.0
    channel = AdjMap(epsilon=epsilon, theta=theta, alpha=alpha).channel(domain)
    for x, row in zip(domain.values(), channel.probabilities(), strict=True):
        assert row == pytest.approx(adj_law(theta, alpha, epsilon, domain, x), rel=1e-12)


def test_one_partition_or_partitions_of_one_are_global_map() -> None:
    domain = Domain(1, 7)
    whole = LocalMap(epsilon=0.5, theta=7).channel(domain)
    assert whole.counts == GlobalMap(epsilon=0.5).channel(domain).counts


def test_uneven_partitions() -> None:
    domain = Domain(1, 10)
    assert Partitions.declared(domain, (3, 9)).members(1) == range(3, 9)
    channel = LocalMap(epsilon=1, edges=(3, 9)).channel(domain)
    assert [sum(c > 0 for c in row) for row in channel.counts] == [2, 2, 6, 6, 6, 6, 6, 6, 2, 2]
    for edges in ((1, 5), (5, 5), (5, 11)):
        with pytest.raises(ConfigError, match="edges of partitions must increase"):
            LocalMap(epsilon=1, edges=edges).channel(domain)


def test_more_buckets_than_values() -> None:
    with pytest.raises(ConfigError, match="exceed the"):
        BucketResponse(epsilon=1, buckets=11).channel(Domain(1, 10))
    assert len(BucketResponse(epsilon=1).channel(Domain(1, 40)).outputs) == 16


def test_buckets_between_edges() -> None:
    channel = BucketResponse(epsilon=10, edges=(2, 8)).channel(Domain(1, 10))
    likeliest = channel.outputs[np.argmax(channel.probabilities(), axis=1)]
    assert likeliest.tolist() == [1, *[4] * 6, *[9] * 3]
    assert channel.span(np.array([4, 9])).tolist() == [[2, 7], [8, 10]]
    assert BucketResponse(epsilon=10, edges=(2, 8)).count == 3
    # q counts these three: the loss between any two values is epsilon, in one bucket it is none.
    assert [float(v) for v in loss_curve(BucketResponse(epsilon=1, edges=(6,)), DOMAIN).loss] == (
        pytest.approx([1.0] * 9)
    )
    assert max(worst_ratios(channel.counts[1:7])) == 1
    for edges in ((1, 5), (5, 11), tuple(range(2, 12))):
        with pytest.raises(ConfigError, match="bucket"):
            BucketResponse(epsilon=1, edges=edges).channel(DOMAIN)


@pytest.mark.parametrize(
    "declared",
    [
        (LocalMap, {}),
        (AdjMap, {"theta": 2, "edges": (4,)}),
        (LocalMap, {"theta": 0}),
        (AdjMap, {"theta": 2, "alpha": 0.0}),
        (BucketResponse, {"buckets": 3, "edges": (4,)}),
        (BucketResponse, {"edges": (4, 4)}),
        (BucketResponse, {"edges": ()}),
        (BucketResponse, {"buckets": 1}),
        (GlobalMap, {"epsilon": 0.0}),
        (GlobalMap, {"epsilon": math.nan}),
        (GlobalMap, {"epsilon": True}),
        (GlobalMap, {"theta": 2}),
    ],
)
def test_a_declaration_that_defines_no_channel_is_refused(
    declared: tuple[type[Mechanism], dict[str, Any]],
) -> None:
    kind, values = declared
    with pytest.raises(ValidationError):
        kind(**{"epsilon": 1.0, **values})


def test_edges_outside_a_domain_are_refused_before_a_channel_is_built() -> None:
    for edges in ((1,), (4, 4), (11,)):
        with pytest.raises(ConfigError):
            LocalMap(epsilon=1.0, edges=edges).require(DOMAIN)
    for edges in ((1,), (11,), tuple(range(1, 11))):
        with pytest.raises(ConfigError):
            BucketResponse(epsilon=1.0, edges=edges).require(DOMAIN)
    for edges in ((2,), (10,), tuple(range(2, 11))):
        LocalMap(epsilon=1.0, edges=edges).require(DOMAIN)
        BucketResponse(epsilon=1.0, edges=edges).require(DOMAIN)


def test_a_row_of_the_square_is_the_mean_over_the_values_that_an_output_represents() -> None:
    domain = Domain(LOWER, LOWER + 9)
    made = design(domain, 0.3, 1.0, "absolute", [1 + x % 3 for x in range(10)])
    assert made is not None
    for mechanism in (
        BucketResponse(epsilon=1.0, edges=(0, 5)),
        made.mechanism,
        GlobalMap(epsilon=1),
    ):
        channel = mechanism.channel(domain)
        table = channel.probabilities()
        for output, row in zip(channel.outputs, channel.square(), strict=True):
            ((first, last),) = channel.span(np.array([output])).tolist()
            values = range(first - LOWER, last - LOWER + 1)
            assert row == pytest.approx(
                np.mean([table[value] for value in values], axis=0), rel=1e-12
            )


def test_counts_that_are_no_distribution_are_no_channel() -> None:
    for row in ((TOTAL - 1, 0), (TOTAL + 1, -1), (TOTAL, 1)):
        with pytest.raises(ValueError):
            Channel(np.array([0]), np.array([0, 1]), (row,))


def test_a_label_shows_all_parameters() -> None:
    shown = [
        mechanism.label()
        for epsilon in (0.25, 8.0)
        for mechanism in (
            GlobalMap(epsilon=epsilon),
            Geometric(epsilon=epsilon),
            *(AdjMap(epsilon=epsilon, theta=theta, alpha=a) for theta in (3, 4) for a in (1, 2)),
            AdjMap(epsilon=epsilon, edges=(4,)),
            *(LocalMap(epsilon=epsilon, theta=theta) for theta in (3, 4)),
            *(BucketResponse(epsilon=epsilon, buckets=buckets) for buckets in (2, 3)),
            BucketResponse(epsilon=epsilon, edges=(4,)),
            *(Designed(epsilon=epsilon, most=most, table="file.json") for most in (9, 10)),
            GeneralisedResponse(epsilon=epsilon),
            Piecewise(epsilon=epsilon),
            UnaryEncoding(epsilon=epsilon),
            MissingBit(epsilon=epsilon),
        )
    ]
    assert len(set(shown)) == len(shown)
