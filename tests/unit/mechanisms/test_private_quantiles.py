"""Private quantiles: their exact output law, and what a person can change of it."""

import itertools
import math
from decimal import Decimal, localcontext
from fractions import Fraction

import numpy as np
import pytest

from opboost_ops.errors import ConfigError
from opboost_ops.mechanisms.private_quantiles import draw, grid, loss, weights

Law = dict[tuple[int, ...], Fraction]


def written_out(gaps: tuple[int, ...], cells: int, epsilon: float) -> Law:
    """Every tuple of edges with its probability: the product over all middle edges.

    `gaps` says how many people lie below the first point, between any two, and above the last.
    """
    table = weights(cells, epsilon)

    def part(held: tuple[int, ...], edges: int) -> Law:
        if not edges:
            return {(): Fraction(1)}
        low, high = edges // 2, edges - 1 - edges // 2
        law: Law = {}
        away: dict[int, int] = {}
        for place in range(low, len(held) - 1 - high):
            below, above = sum(held[: place + 1]), sum(held[place + 1 :])
            off = abs(below * (high + 1) - above * (low + 1))
            away[place] = off // (max(low, high) + 1)
        least = min(away.values())
        chances = {
            place: int(table[min(steps - least, len(table) - 1)]) for place, steps in away.items()
        }
        for place, weight in chances.items():
            first = part(held[: place + 1], low)
            for one, other in itertools.product(first, part(held[place + 1 :], high)):
                places = (*one, place, *(place + 1 + each for each in other))
                share = first[one] * part(held[place + 1 :], high)[other]
                law[places] = share * Fraction(weight, sum(chances.values()))
        return law

    return part(gaps, cells - 1)


def of_the_sampler(gaps: tuple[int, ...], cells: int, epsilon: float) -> Law:
    """The same from the sampler alone: which shares of all integers give which edges."""
    below, people, table = np.cumsum(gaps)[:-1], sum(gaps), weights(cells, epsilon)

    def drawn(points: tuple[int, ...]) -> tuple[list[int], tuple[int, ...]]:
        totals: list[int] = []

        def uniform(bound: int) -> int:
            totals.append(bound)
            return points[len(totals) - 1] if len(totals) <= len(points) else 0

        return totals, draw(below, people, table, cells, uniform)

    law: Law = {}

    def walk(points: tuple[int, ...], share: Fraction) -> None:
        """Follow every choice: integers in a row choose the same edge, whatever comes after."""
        if len(points) == cells - 1:
            law[drawn(points)[1]] = share
            return
        total, first = drawn(points)[0][len(points)], 0
        while first < total:
            places, low, high = drawn((*points, first))[1], first, total - 1
            while low < high:
                middle = (low + high + 1) // 2
                same = drawn((*points, middle))[1] == places
                low, high = (middle, high) if same else (low, middle - 1)
            walk((*points, first), share * Fraction(low + 1 - first, total))
            first = low + 1

    walk((), Fraction(1))
    return law


@pytest.mark.parametrize(
    ("gaps", "cells"), [((3, 0, 5, 2), 2), ((1, 4, 0, 0, 9), 3), ((2, 2, 2, 2, 2, 2), 4)]
)
def test_the_sampler_has_exactly_the_law_that_is_written_out(
    gaps: tuple[int, ...], cells: int
) -> None:
    assert of_the_sampler(gaps, cells, 0.7) == written_out(gaps, cells, 0.7)


def test_weights_are_those_of_the_exponential_mechanism() -> None:
    epsilon, levels = 0.1, 4
    table = np.asarray(weights(10, epsilon), dtype=np.float64)
    formula = np.exp(-epsilon / (4 * levels) * np.arange(len(table)))
    assert np.abs(np.log(table / table[0]) - np.log(formula)).max() < 0.01


@pytest.mark.parametrize("cells", [2, 3, 4])
def test_nobody_changes_the_law_by_more_than_the_loss(cells: int) -> None:
    """Of every small table and every table with one person more, or one who is elsewhere."""
    epsilon, width = 1.5, 5
    bound = loss(cells, epsilon)
    assert bound <= epsilon
    tables = [gaps for gaps in itertools.product(range(3), repeat=width) if sum(gaps) in (2, 3)]
    laws = {gaps: written_out(gaps, cells, epsilon) for gaps in tables}
    worst = 0.0
    for one, other in itertools.combinations(tables, 2):
        moved = [a - b for a, b in zip(one, other, strict=True)]
        if sum(map(abs, moved)) > 2 or abs(sum(moved)) == 2:
            continue
        ratios = [laws[one][places] / laws[other][places] for places in laws[one]]
        worst = max(worst, *(abs(math.log(ratio)) for ratio in ratios))
    assert bound / 4 < worst <= bound


@pytest.mark.parametrize(("cells", "epsilon"), [(2, 10.0), (3, 1.0), (10, 0.1), (256, 0.1)])
def test_the_loss_is_that_of_the_table_that_is_drawn_from(cells: int, epsilon: float) -> None:
    """Per level, four steps of the exponential mechanism and eight of the worst rounding error."""
    table, levels = weights(cells, epsilon).tolist(), math.ceil(math.log2(cells))
    with localcontext(prec=50):
        rate = Decimal(epsilon) * (1 - Decimal(2) ** -12) / (4 * levels)
        first = Decimal(table[0]).ln()
        off = max(abs(Decimal(entry).ln() - first + rate * k) for k, entry in enumerate(table))
        exact = levels * (4 * rate + 8 * off)
        assert exact <= Decimal(loss(cells, epsilon)) <= exact * (1 + Decimal("1e-9"))
        assert exact <= Decimal(epsilon)


def test_edges_lie_near_equal_shares_of_many_people() -> None:
    values = np.sort(np.random.default_rng(0).lognormal(10, 1, 20_000))
    points = grid((0.0, 1e6))
    below = np.searchsorted(values, points, side="right")
    for seed in range(5):
        random = np.random.default_rng(seed)
        places = draw(
            below, len(values), weights(10, 0.5), 10, lambda bound, r=random: int(r.integers(bound))
        )
        shares = below[list(places)] / len(values)
        assert np.abs(shares - np.arange(1, 10) / 10).max() < 0.03


@pytest.mark.parametrize("bounds", [(0.0, 1e6), (0.0, 0.6), (-40.0, 60.0), (1e9, 1e9 + 1)])
def test_the_grid_lies_inside_the_bounds_and_rises(bounds: tuple[float, float]) -> None:
    points = grid(bounds)
    assert bounds[0] < points[0] < points[-1] < bounds[1]
    assert (np.diff(points) > 0).all()
    assert 900 < len(points) < 1024


@pytest.mark.parametrize(
    ("bounds", "decimals"), [((0.0, 1e6), 3), ((-40.0, 60.0), 4), ((0.0, 0.6), 5)]
)
def test_the_grid_has_even_points_and_even_ratios_rounded_to_two_digits(
    bounds: tuple[float, float], decimals: int
) -> None:
    """Two digits of the least distance of a point from the lower bound."""
    lower, span = bounds[0], bounds[1] - bounds[0]
    steps = [k / 129 * span for k in range(1, 129)]
    steps += [math.expm1(k / 896 * math.log1p(span)) for k in range(1, 896)]
    points = {round(lower + step, decimals) for step in steps}
    assert grid(bounds).tolist() == sorted(points - {*bounds})


@pytest.mark.parametrize(("cells", "epsilon"), [(1, 0.1), (257, 0.1), (10, 0.0), (10, 11.0)])
def test_what_is_out_of_range_is_refused(cells: int, epsilon: float) -> None:
    with pytest.raises(ConfigError):
        weights(cells, epsilon)


@pytest.mark.parametrize("epsilon", [3.0, 8.0, 10.0])
def test_points_that_divide_the_people_alike_are_drawn_alike(epsilon: float) -> None:
    """Half of the people at each bound: every point of the grid has the greatest weight."""
    points = grid((0.0, 1000.0))
    table, totals = weights(2, epsilon), []
    below = np.full(len(points), 500)
    for share in range(4):
        places = draw(below, 1000, table, 2, lambda n, k=share: totals.append(n) or n * k // 4)
        assert places == (len(points) * share // 4,)
    assert set(totals) == {len(points) * int(table[0])}


def test_a_common_value_leaves_no_edge_far_away_to_chance() -> None:
    """Of 100,000 people 84 % have 0: five edges lie just above it, four divide the others."""
    values = np.sort(np.concatenate([np.zeros(84_000), np.arange(16_000) / 1_600 + 5]))
    points = grid((0.0, 20.0))
    below = np.searchsorted(values, points, side="right")
    random = np.random.default_rng(0)
    places = draw(
        below, len(values), weights(10, 0.1), 10, lambda bound: int(random.integers(bound))
    )
    shares = below[list(places)] / len(values)
    assert (shares[:5] == 0.84).all()
    assert np.abs(shares[5:] - (0.84 + 0.16 * np.arange(1, 5) / 5)).max() < 0.02
