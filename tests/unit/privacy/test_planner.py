"""The planner's candidates keep the caps exactly, use them, and are ranked by what they keep."""

import numpy as np
import pytest

from opboost_ops.domain import Domain
from opboost_ops.errors import ConfigError
from opboost_ops.mechanisms import BucketResponse, Geometric
from opboost_ops.privacy.consent.guessing import Law
from opboost_ops.privacy.loss import loss_curve
from opboost_ops.privacy.planner import (
    Candidate,
    Caps,
    candidates,
    designed_under,
    expected_weighted_kendall,
    rank,
    with_declared,
)

TEN = Domain(1, 10)
MARGINAL = np.array([1, 4, 9, 16, 20, 16, 9, 4, 1, 1])


@pytest.fixture(scope="module", params=[Caps(step=0.5), Caps(whole=2.0), Caps(0.5, 2.0)])
def caps(request: pytest.FixtureRequest) -> Caps:
    return request.param


def test_candidates_keep_the_caps_and_use_them(caps: Caps) -> None:
    found = candidates(TEN, caps)
    known = {"global_map", "geometric", "adj_map", "grr", "piecewise", "bucket_response"}
    # Without a far cap the geometric mechanism is what a design would find.
    known |= {"designed"} if caps.whole is not None else set()
    assert {c.mechanism.name for c in found} == known
    for candidate in found:
        curve = loss_curve(candidate.mechanism, TEN)
        assert curve == candidate.curve
        shares = []
        for loss, cap in ((curve.loss[0], caps.step), (curve.loss[-1], caps.whole)):
            assert loss != "inf"
            if cap is not None:
                assert loss <= cap
                shares.append(loss / cap)
        # Only rounding epsilon down to three digits is given away.
        assert max(shares) > 0.97, candidate.mechanism


@pytest.mark.parametrize(
    "caps",
    [Caps(guess=0.18), Caps(of_two=0.7), Caps(whole=4.0, guess=0.3), Caps(whole=3.0, of_two=0.6)],
)
def test_candidates_keep_guess_rates_and_use_them(caps: Caps) -> None:
    found = candidates(TEN, caps)
    assert {c.mechanism.name for c in found} >= {"global_map", "geometric", "grr", "piecewise"}
    for candidate in found:
        guess = Law(candidate.mechanism.channel(TEN)).guess(0.0)
        assert candidate.guess == pytest.approx(guess.after)
        assert candidate.of_two == pytest.approx(guess.of_two)
        shares = [(guess.after - 0.1) / (caps.guess - 0.1)] if caps.guess else []
        shares += [(guess.of_two - 0.5) / (caps.of_two - 0.5)] if caps.of_two else []
        assert max(shares) <= 1 + 1e-9
        if caps.whole is not None:
            assert candidate.curve.loss[-1] != "inf"
            shares.append(candidate.curve.loss[-1] / caps.whole)
        assert 0.95 < max(shares) <= 1 + 1e-9, candidate.mechanism


def test_bucket_responses_of_twice_as_many_buckets_each_are_compared() -> None:
    found = [each.mechanism for each in candidates(Domain(1, 33), Caps(step=1.0))]
    counts = [each.buckets for each in found if isinstance(each, BucketResponse)]
    assert sorted(counts) == [2, 4, 8, 16, 32]


def test_a_design_has_at_most_64_values() -> None:
    for size in (64, 65):
        designed = designed_under(Domain(1, size), Caps(0.1, 2.0))
        assert (designed is not None) is (size == 64)


def test_a_design_uses_a_guess_rate_as_well_as_a_far_cap() -> None:
    best = candidates(TEN, Caps(step=1.0, whole=4.0, guess=0.36))[0]
    assert best.mechanism.name == "designed"
    assert 0.97 * 0.36 < best.guess <= 0.36


def test_the_declared_mechanism_is_a_candidate_only_within_the_caps() -> None:
    declared = Candidate.of(Geometric(epsilon=0.5), TEN)
    for caps in (Caps(whole=4.2), Caps(step=0.4), Caps(0.6, 4.2), Caps(of_two=0.6)):
        assert with_declared(declared, [], TEN, caps) == []
    for caps in (Caps(whole=4.6), Caps(step=0.6), Caps(0.6, 4.6)):
        assert with_declared(declared, [declared], TEN, caps) == [declared]


def test_progress_counts_to_the_total() -> None:
    calls: list[tuple[int, int]] = []
    candidates(Domain(1, 3), Caps(step=1.0), lambda done, total: calls.append((done, total)))
    assert calls == [(done, len(calls)) for done in range(1, len(calls) + 1)]


def test_ranking_is_by_expected_order() -> None:
    ranked = rank(candidates(TEN, Caps(step=1.0)), TEN, MARGINAL)
    scores = [score for score, _ in ranked]
    assert scores == sorted(scores, reverse=True)
    for score, candidate in ranked[:3]:
        channel = candidate.mechanism.channel(TEN)
        assert score == expected_weighted_kendall(MARGINAL, channel)


@pytest.mark.parametrize("caps", [(0.0, None), (1.0, -1.0)])
def test_caps_that_are_none(caps: tuple[float | None, float | None]) -> None:
    with pytest.raises(ConfigError, match="cap"):
        Caps(*caps)


def test_a_column_of_one_value_has_no_order_to_lose() -> None:
    lone = np.where(np.arange(10) == 3, 5, 0)
    assert (
        expected_weighted_kendall(lone, candidates(TEN, Caps(0.5))[0].mechanism.channel(TEN)) == 1
    )
