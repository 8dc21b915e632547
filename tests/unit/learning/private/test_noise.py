"""The samplers of noise for models, against exact arithmetic of their own."""

import itertools
import math
from collections.abc import Iterator
from decimal import Decimal, localcontext
from fractions import Fraction

import numpy as np
import pytest

from opboost_ops.errors import ConfigError, ContractError
from opboost_ops.learning.private import noise
from tests.unit.learning.private.tables import Lines

WORDS = 2**64


def reached(law: noise.Thresholds) -> list[int]:
    """The thresholds as numbers of 128 bits."""
    halves = zip(law.high.tolist(), law.low.tolist(), strict=True)
    return [high * WORDS + low for high, low in halves]


@pytest.mark.parametrize("mean", [1, 2, 6, 300])
def test_the_table_is_poissons_to_the_distance_that_is_claimed(mean: int) -> None:
    law = noise.thresholds(mean)
    masses = [b - a for a, b in itertools.pairwise([0, *reached(law), WORDS**2])]
    with localcontext(prec=80):
        weight, weights = (-Decimal(mean)).exp(), []
        for k in range(1, law.first + len(masses) + 1):
            weights.append(weight)
            weight = weight * mean / k
        inside = weights[law.first :]
        away = sum(abs(Decimal(m) / WORDS**2 - w) for m, w in zip(masses, inside, strict=True))
        # The mass outside the table counts as well.
        assert (away + 1 - sum(inside)) / 2 <= Decimal(noise.DISTANCE)


@pytest.mark.parametrize("mean", [0, -1, 2**34 + 1])
def test_a_mean_out_of_range_is_refused(mean: int) -> None:
    with pytest.raises(ConfigError):
        noise.thresholds(mean)


def fixed_words(monkeypatch: pytest.MonkeyPatch, words: list[int], further: Iterator[int]) -> None:
    """Let the operating system draw these words, and these further bits."""
    raw = np.array(words, dtype=np.uint64).tobytes()

    def urandom(count: int) -> bytes:
        assert count == len(raw)
        return raw

    monkeypatch.setattr(noise.os, "urandom", urandom)
    monkeypatch.setattr(noise.secrets, "randbits", lambda bits: next(further) if bits == 64 else 0)


@pytest.mark.parametrize("mean", [1, 6, 300])
def test_a_draw_reaches_a_threshold_by_all_of_its_bits(
    monkeypatch: pytest.MonkeyPatch, mean: int
) -> None:
    """Each threshold itself, and the number before it: only the last bit tells them apart."""
    law = noise.thresholds(mean)
    thresholds = reached(law)
    numbers = [number for each in thresholds if each for number in (each - 1, each)]
    expected = [sum(each <= number for each in thresholds) for number in numbers]
    middle = WORDS**2 // 2
    against = sum(each <= middle for each in thresholds)
    drawn = numbers + [middle] * len(numbers)
    # Lower halves are drawn where an upper half is equal to that of a threshold.
    further = (number % WORDS for number in drawn if number // WORDS in set(law.high.tolist()))
    fixed_words(monkeypatch, [number // WORDS for number in drawn], further)
    assert noise.skellam(len(numbers), mean).tolist() == [k - against for k in expected]
    assert next(further, None) is None


def boundaries(scores: list[int], factor: Fraction, bits: int) -> list[int]:
    """Where the cumulative shares of exp(factor score) lie, in units of 2^-bits, rounded down."""
    with localcontext(prec=120, Emin=-(10**9)):
        rate = Decimal(factor.numerator) / factor.denominator
        sums = list(itertools.accumulate((rate * (s - max(scores))).exp() for s in scores))
        return [int(each * 2**bits / sums[-1]) for each in sums[:-1]]


@pytest.mark.parametrize(
    ("scores", "factor"),
    [
        ([0, 700, 1000, -400, 1000], Fraction(1, 1000)),
        ([3, 3, 3], Fraction(1)),
        ([-5, 0, 4, -90, 2], Fraction(7, 3)),
        ([k * k % 97 for k in range(40)], Fraction(1, 50)),
    ],
)
def test_a_choice_turns_exactly_where_cumulative_weights_do(
    monkeypatch: pytest.MonkeyPatch, scores: list[int], factor: Fraction
) -> None:
    """To 64 further bits: no float decides, and the word before a boundary never chooses beyond."""
    fine, first = boundaries(scores, factor, 128), boundaries(scores, factor, 64)
    for word, exact in zip(first, fine, strict=True):
        for number in (exact - 2, exact + 2, exact - WORDS, exact + WORDS):
            if 0 <= number < WORDS**2 and abs(number // WORDS - word) <= 1:
                further = iter([number % WORDS, 0])
                fixed_words(monkeypatch, [number // WORDS], further)
                chosen = noise.choose(np.array([scores]), factor)
                assert chosen.tolist() == [sum(each <= number for each in fine)]


def test_the_first_and_the_last_number_choose_without_further_bits(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    fixed_words(monkeypatch, [0, WORDS - 1], iter(()))
    assert noise.choose(np.array([[5, 5, 5]] * 2), Fraction(1)).tolist() == [0, 2]


def test_a_candidate_of_the_least_weight_has_its_share(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first of two weights is e^-1000, so 1443 bits of 0 choose it, and 1441 do not."""
    for others, chosen in (([0] * 22, 0), ([0] * 21 + [2**40], 1)):
        fixed_words(monkeypatch, [0], iter([*others, 0]))
        assert noise.choose(np.array([[0, 1000]]), Fraction(1)).tolist() == [chosen]


def test_words_of_rows_follow_from_key_and_ensemble_alone() -> None:
    keys = [noise.fresh_key() for _ in range(20)]
    assert len(set(keys)) == 20
    words = noise.random_words(keys[0], 3, 100)
    assert (noise.random_words(keys[0], 3, 50) == words[:50]).all()
    others = [noise.random_words(keys[0], 4, 100), noise.random_words(keys[1], 3, 100)]
    assert not any(np.isin(words, other).any() for other in others)


@pytest.mark.parametrize("epsilon", [Fraction(1, 10), Fraction(1), Fraction(22, 7)])
@pytest.mark.parametrize("sensitivity", [1, 1024])
def test_the_scale_of_laplace_noise_keeps_epsilon(sensitivity: int, epsilon: Fraction) -> None:
    """The mean distance of discrete Laplace noise from 0 is 2 a / (1 - a^2), for a = e^-rate."""
    draws = np.abs(np.array(noise.laplace([0] * 40_000, sensitivity, epsilon)))
    a = math.exp(-float(epsilon) / sensitivity)
    assert draws.mean() == pytest.approx(2 * a / (1 - a * a), rel=0.05)


def test_a_memory_of_another_training_is_refused() -> None:
    codes, target = np.zeros((2, 1), dtype=np.uint16), np.zeros(2)
    first = noise.training_digest([b"a"], codes, target)
    memory = Lines([])
    assert noise.resume(memory, first) == []
    noise.commit(memory, training=first)
    assert noise.resume(memory, first) == [{"training": first}]
    for other in (
        noise.training_digest([b"b"], codes, target),
        noise.training_digest([b"a"], codes + 1, target),
        noise.training_digest([b"a"], codes, target + 1),
    ):
        with pytest.raises(ContractError):
            noise.resume(memory, other)
