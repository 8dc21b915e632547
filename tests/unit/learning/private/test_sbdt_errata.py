"""S-BDT's counterexamples of docs/reference/errata.md: what its code charges, and the cost."""

from bisect import bisect_right
from fractions import Fraction
from math import comb, exp, log
from pathlib import Path

TEXT = " ".join(
    (Path(__file__).parents[4] / "docs" / "reference" / "errata.md").read_text().split()
)


def loss(output: float, tables: list[list[int]], epsilon: float, bound: int) -> float:
    """Of one output of the noisy mean: ln of the ratio of both tables' densities."""
    density = []
    for labels in tables:
        rate = len(labels) * epsilon / bound
        mean = sum(labels) / len(labels)
        density.append(log(rate / 2) - rate * abs(output - mean))
    return abs(density[0] - density[1])


def test_the_initial_score_costs_more_than_its_epsilon() -> None:
    ten = [-1] * 10
    assert round(loss(-1, [ten, [*ten[1:], 1]], 1.0, 1), 12) == 2
    at = [loss(output, [ten, [*ten, 1]], 1.0, 1) for output in (-1, -3, -1000)]
    assert f"-1 has a loss of {at[0]:.3f} and -3 one of {at[1]:.3f}" in TEXT
    assert at[2] > 900


def divergence(share: Fraction, gradient: Fraction, hessian: Fraction, noise: Fraction) -> Fraction:
    """Of one tree at order alpha, over alpha / sigma^2, for a row's shares of both clips.

    Each sum has noise of variance (scale sigma)^2 / (2 share): of scale 1, of hessians of `noise`.
    """
    return (1 - share) * gradient**2 + share * (hessian / noise) ** 2


def test_half_of_the_hessians_noise() -> None:
    whole, half = Fraction(1), Fraction(1, 2)
    for share, factor in ((Fraction(1, 25), "1.12"), (half, "2.5")):
        charged, real = (divergence(share, whole, whole, noise) for noise in (whole, half))
        assert (charged, real) == (1, 1 + 3 * share)
        assert f"{float(real):g}" == factor
        assert f"{factor} times" in TEXT
    # A small epsilon goes by the root of the divergence.
    assert f"about {float(divergence(Fraction(1, 25), whole, whole, half)) ** 0.5:.2f}" in TEXT


def test_the_filter_looks_a_hessian_up_at_the_least_one() -> None:
    clip, most, steps, share = Fraction(1, 2), Fraction(1, 10), 1000, Fraction(1, 25)
    gradient = Fraction(502, 10_000)
    hessian = gradient * (1 - gradient)
    assert f"gradient {float(gradient):g} and hessian {float(hessian):.4f}" in TEXT
    table = [
        (Fraction(i, steps) * clip, Fraction(j, steps) * most)
        for i in range(95, 110)
        for j in range(1, steps + 1)
    ]
    entry = table[bisect_right(table, (gradient, hessian))]
    assert entry == (Fraction(505, 10_000), most / steps)
    charged, real = (
        divergence(share, g / clip, h / most, Fraction(1)) for g, h in (entry, (gradient, hessian))
    )
    assert f"costs {float(real / charged):.2f} times what is charged" in TEXT


def test_extremes_of_labels_move_the_others() -> None:
    def scaled(labels: list[int]) -> list[Fraction]:
        low, high = min(labels), max(labels)
        return [Fraction(2 * (label - low), high - low) - 1 for label in labels]

    before, after = (scaled([*range(9), last])[:9] for last in (9, 90))
    assert sum(a != b for a, b in zip(before, after, strict=True)) == 8
    assert sum(before) - sum(after) == Fraction(72, 10)
    assert "their sum by 7.2" in TEXT


def test_a_known_sample_has_no_amplification() -> None:
    order, rate, sigma = 8, 0.01, 41.0
    cost = 1 / sigma**2
    terms = [(1 - rate) ** (order - 1) * (order * rate - rate + 1)]
    terms += [
        comb(order, j) * (1 - rate) ** (order - j) * rate**j * exp(j * (j - 1) * cost)
        for j in range(2, order + 1)
    ]
    charged = log(sum(terms)) / (order - 1)
    assert f"{round(order * cost / charged, -3):,.0f} times what is charged" in TEXT
