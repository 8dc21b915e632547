"""Masks cancel in the sum of all, and hide all of a vector but that."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from opboost_ops.errors import ConfigError
from opboost_ops.exchange.rejection import Rejected
from opboost_ops.exchange.rounds.masks import Masks, RunKey, sum_without_masks
from opboost_ops.mechanisms import noise


def parties(count, run="0" * 16, session="ab" * 32):
    def key(i):
        return RunKey(noise.run_seed(bytes([i]) * 32, "f", run, bytes(32)))

    keys = {f"p{i:02}": key(i) for i in range(count)}
    return {
        name: Masks(name, key, {n: k.public for n, k in keys.items() if n != name}, session)
        for name, key in keys.items()
    }


@settings(max_examples=25, deadline=None)
@given(st.integers(3, 32), st.integers(0, 40), st.integers(0, 2**32))
def test_the_sum_of_masked_vectors_is_the_sum_to_the_bit(count, size, seed):
    random = np.random.default_rng(seed)
    most = (1 << 63) // count - 1
    vectors = random.integers(-most, most, (count, size), endpoint=True)
    masked = [m.mask("r", v) for m, v in zip(parties(count).values(), vectors, strict=True)]
    assert (sum_without_masks(masked) == vectors.sum(axis=0)).all()


def test_one_masked_vector_and_all_but_one_pass_as_uniform():
    # Of constant vectors: any structure that is left is the masks'.
    size = 200_000
    masked = [m.mask("r", np.full(size, 7)) for m in parties(4).values()]
    for words in (masked[0], masked[1], sum_without_masks(masked[:3]).view(np.uint64)):
        bits = np.unpackbits(words.view(np.uint8).reshape(-1, 8), axis=1)
        share = bits.mean(axis=0)
        # Of 64 shares of fair bits, each has a spread of 0.0011: 6.5 of them.
        assert np.abs(share - 0.5).max() < 0.0073
        counts = np.bincount((words >> np.uint64(56)).astype(int), minlength=256)
        chi_square = ((counts - size / 256) ** 2 / (size / 256)).sum()
        assert 255 - 6.5 * 22.6 < chi_square < 255 + 6.5 * 22.6
    # What the colluders cannot see: the sum of all is no longer uniform, but plain.
    assert (sum_without_masks(masked) == 28).all()


def test_every_round_run_and_session_has_masks_of_its_own_and_a_retry_the_same():
    plain = np.arange(50)
    seen = [
        parties(3, run, session)["p00"].mask(name, plain).tobytes()
        for run in ("0" * 16, "1" * 16)
        for session in ("ab" * 32, "cd" * 32)
        for name in ("trees-00000-00", "trees-00000-01")
    ]
    assert len(set(seen)) == 8
    again = parties(3)["p00"].mask("trees-00000-00", plain).tobytes()
    assert again == seen[0]


def test_two_parties_and_keys_that_are_none_are_refused():
    with pytest.raises(ConfigError, match="3 to 32"):
        parties(2)
    with pytest.raises(ConfigError, match="3 to 32"):
        parties(33)
    key = RunKey(bytes(32))
    with pytest.raises(Rejected, match="not an X25519 key"):
        key.shared(bytes(32), "mallory")
