"""Noise: a stream under a key of its own for each draw; keys and secrets."""

import os
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from opboost_ops.domain import Domain
from opboost_ops.errors import ConfigError, ContractError
from opboost_ops.mechanisms import noise
from opboost_ops.mechanisms.maps import GlobalMap
from opboost_ops.mechanisms.noise import Words
from opboost_ops.mechanisms.release import CHUNK, randomise

SECRET = bytes(range(32))
VALUES = np.arange(2000, dtype=np.int64) % 10 + 1
MECHANISM, DOMAIN = GlobalMap(epsilon=0.5), Domain(1, 10)


def test_a_stream_goes_on_and_no_two_fresh_ones_are_equal() -> None:
    one = Words(SECRET)
    parts = np.concatenate([one.take(7), one.take(0), one.take(993)])
    assert (parts == Words(SECRET).take(1000)).all()
    fresh = [Words.fresh().take(100).tobytes() for _ in range(50)]
    assert len(set(fresh)) == 50


def test_a_seeded_stream_follows_from_seed_and_place_alone() -> None:
    places = [(SECRET, "a"), (SECRET, "b"), (SECRET[::-1], "a")]
    streams = {Words.seeded(*place).take(10).tobytes() for place in places}
    assert len(streams) == 3
    assert Words.seeded(SECRET, "a").take(10).tobytes() in streams


def test_integers_below_a_bound_are_uniform() -> None:
    words = Words(SECRET)
    counts = np.bincount([words.below(3) for _ in range(30_000)], minlength=3)
    # Six standard deviations of a third of 30,000.
    assert np.abs(counts - 10_000).max() < 6 * np.sqrt(30_000 * 2 / 9)
    assert {words.below(1) for _ in range(10)} == {0}


def release(values: np.ndarray = VALUES, words: Words | None = None) -> np.ndarray:
    return randomise(values, MECHANISM, DOMAIN, words or Words.fresh())


def test_a_release_stays_inside() -> None:
    out = release()
    assert out.dtype == np.int64
    assert set(out.tolist()) == set(range(1, 11))
    assert (out != VALUES).mean() > 0.5


def test_two_draws_are_independent() -> None:
    """Two independent draws agree far less often than a draw with itself."""
    agree = (release() == release()).mean()
    probabilities = MECHANISM.channel(DOMAIN).probabilities()
    expected = float((probabilities**2).sum(axis=1).mean())
    # 2,000 values: a standard deviation is below 0.0112, and six of them are allowed.
    assert abs(agree - expected) < 0.067


@pytest.mark.parametrize("value", [0, 11, -(2**40)])
def test_a_value_outside_the_domain_is_never_released(value: int) -> None:
    values = VALUES.copy()
    values[3] = value
    with pytest.raises(ContractError, match="outside the declared domain") as caught:
        release(values)
    assert str(value) not in str(caught.value)


def test_chunks_share_one_stream() -> None:
    """Rows are randomised in chunks; a word is used once."""
    values = np.arange(2 * CHUNK + 1234, dtype=np.int64) % 10 + 1
    words = Words(SECRET)
    parts = [release(part, words) for part in np.split(values, [777, CHUNK + 1])]
    assert (np.concatenate(parts) == release(values, Words(SECRET))).all()


def test_a_key_for_each_purpose() -> None:
    keys = {noise.keyed_by(seed, use) for seed in (SECRET, bytes(32)) for use in ("a", "b")}
    assert len(keys) == 4
    assert {len(key) for key in keys} == {32}
    assert noise.keyed_by(SECRET, "a") == noise.keyed_by(SECRET, "a")


def test_people_are_hashed_under_a_key() -> None:
    ids = pa.array(["a", "b"])
    hashes = {noise.person_keys(key, ids, "string").tobytes() for key in (SECRET, SECRET[::-1])}
    assert len(hashes) == 2


@pytest.mark.parametrize("size", [0, 31, 64])
def test_a_secret_of_another_size_is_refused(tmp_path: Path, size: int) -> None:
    path = tmp_path / "noise.secret"
    path.write_bytes(os.urandom(size))
    path.chmod(0o600)
    with pytest.raises(ConfigError, match=f"has {size} bytes instead of 32"):
        noise.read_secret(path)
