"""The triple on the noise of sums: the law of the honest parties' shares, and no other scale."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.stats import skellam as law

from opboost_ops.config.schema import Record
from opboost_ops.exchange.rounds.protocol import Round
from opboost_ops.learning.federboost.sum_noise import Release, calibrate
from opboost_ops.learning.private import leaf_sums, noise
from tests.horizontal import Banks
from tests.statistical.test_triple import DRAWS, P, p_value


def binned(values: np.ndarray, spread: float) -> np.ndarray:
    """Counts in cells of a quarter of the claimed standard deviation, the tails in the last."""
    cell = max(1, round(spread / 4))
    at = np.clip(np.floor_divide(values + cell // 2, cell), -16, 16) + 16
    return np.bincount(at.astype(int), minlength=33)


def expected(spread: float, scale: float) -> np.ndarray:
    """The probability of each cell under Skellam noise of a scaled standard deviation."""
    cell, half = max(1, round(spread / 4)), (scale * spread) ** 2 / 2
    edges = np.arange(-15, 17) * cell - cell // 2 - 1
    below = law.cdf(edges, half, half)
    return np.diff(np.concatenate([[0.0], below, [1.0]]))


@pytest.mark.parametrize("parties", [3, 8])
@pytest.mark.parametrize("epsilon", [0.5, 8.0])
def test_the_sum_of_honest_shares_has_the_noise_that_epsilon_needs(
    parties: int, epsilon: float
) -> None:
    """Two parties add nothing: what the others add is what the guarantee counts on."""
    silent = 2
    added = calibrate([Release("trees", 9, 8, 20, 1.0, (16, 80))], parties - silent, epsilon, 1e-6)
    mean = added.means["trees"]
    total = sum(noise.skellam(DRAWS, mean) for _ in range(parties - silent))
    spread = (2 * (parties - silent) * mean) ** 0.5
    counts = binned(np.asarray(total), spread)
    assert p_value(counts, expected(spread, 1.0)) > P
    for wrong in (0.7, 1.3):
        assert p_value(counts, expected(spread, wrong)) < P
    # The variance of the honest shares is what one party alone would have to add, or a little more.
    central = calibrate([Release("trees", 9, 8, 20, 1.0, (16, 80))], 1, epsilon, 1e-6).means[
        "trees"
    ]
    assert central <= (parties - silent) * mean <= central + parties
    assert added.curve.epsilon <= epsilon


@pytest.mark.parametrize(
    ("parties", "added", "replaced"), [(2, 4.0, 8.52), (3, 5.98, 12.95), (32, 33.3, 94.3)]
)
def test_the_guarantee_names_what_all_other_parties_together_learn(
    parties: int, added: float, replaced: float
) -> None:
    """They know their own noise, so of a sum's noise only one party's share is left."""
    noise = leaf_sums.sums_of("binary", 200, 4.0, 1e-5, parties - 1, 10).noise
    assert noise.curve.epsilon == pytest.approx(4.0, rel=1e-4)
    assert noise.pooled.epsilon == pytest.approx(added, rel=0.02)
    assert noise.pooled_replaced.epsilon == pytest.approx(replaced, rel=0.02)
    for figure in (noise.curve, noise.replaced, noise.pooled, noise.pooled_replaced):
        assert f"{figure.epsilon:.3g}" in noise.guarantee(parties)


class Noisy(Record):
    """A decision that tells the sum itself."""

    total: tuple[int, ...]


def test_the_sum_has_the_noise_of_those_that_add_it(tmp_path: Path) -> None:
    """Masks come off; of three parties one adds nothing."""
    banks = Banks(tmp_path, 3, private={"epsilon": 4.0, "delta": 1e-4}, mean=40)

    def work(box: Any, i: int) -> np.ndarray:
        if i == 2:
            box._me = replace(box._me, noise=lambda _, size: np.zeros(size, dtype=np.int64))

        def told(sums: np.ndarray) -> Noisy:
            return Noisy(total=tuple(sums.tolist()))

        exact = np.full(DRAWS, i, dtype=np.int64)
        sums = box.step(Round("facts"), DRAWS, lambda: exact, told, Noisy).total
        return np.array(sums) - 3

    found, errors = banks.together(work)
    assert not errors
    spread = (2 * 2 * 40) ** 0.5
    counts = binned(found["bank_a"], spread)
    assert (found["bank_a"] == found["bank_b"]).all()
    assert p_value(counts, expected(spread, 1.0)) > P
    for wrong in (0.7, 1.3):
        assert p_value(counts, expected(spread, wrong)) < P


@pytest.mark.parametrize("mean", [1, 6, 4000])
def test_thresholds_are_poissons_to_the_last_float(mean: int) -> None:
    from scipy.stats import poisson as plain

    found = noise.thresholds(mean)
    below = (found.high.astype(np.float64) + found.low.astype(np.float64) / 2**64) / 2**64
    at = np.arange(len(below)) + found.first
    near = np.abs(at - mean) < 8 * mean**0.5 + 8
    np.testing.assert_allclose(below[near], plain.cdf(at[near], mean), rtol=1e-9, atol=1e-15)
    assert (np.diff(found.high.astype(object)) >= 0).all()


def test_equal_upper_halves_are_decided_by_the_lower_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    """Thresholds of few bits, so that many draws need the lower half; the law is the same."""
    real = noise.thresholds(3)
    coarse = noise.Thresholds(
        real.first,
        real.high >> np.uint64(61),
        (real.high << np.uint64(3)) | (real.low >> np.uint64(61)),
    )
    monkeypatch.setattr(noise.os, "urandom", lambda n: bytes(
        np.frombuffer(np.random.default_rng(n).bytes(n), np.uint64) >> np.uint64(61)))  # fmt: skip
    drawn = noise._poisson(20_000, coarse)
    counts = np.bincount(np.minimum(drawn, 10), minlength=11)
    from scipy.stats import poisson as plain

    cells = plain.pmf(np.arange(11), 3)
    cells[-1] = plain.sf(9, 3)
    assert p_value(counts, cells) > 1e-9
