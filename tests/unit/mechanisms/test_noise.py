"""Noise: a stream under a key of its own for each draw; keys and secrets."""

import base64
import itertools
import os
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

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


def test_an_integer_is_the_next_bits_of_the_stream_that_lie_below_the_bound() -> None:
    """Every pattern of as many bits as the bound has stands for one integer, so all are alike."""
    stream = Cipher(algorithms.AES(SECRET), modes.CTR(bytes(16))).encryptor().update(bytes(10_000))
    for bound, bits in ((1, 1), (3, 2), (255, 8), (256, 9), (2**62 + 1, 63)):
        size = -(-bits // 8)
        parts = (stream[at : at + size] for at in itertools.count(0, size))
        patterns = (int.from_bytes(part, "big") >> (8 * size - bits) for part in parts)
        accepted = (pattern for pattern in patterns if pattern < bound)
        words = Words(SECRET)
        assert [words.below(bound) for _ in range(100)] == list(itertools.islice(accepted, 100))


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


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o620])
def test_a_secret_that_others_can_open_is_refused(tmp_path: Path, mode: int) -> None:
    path = tmp_path / "noise.secret"
    path.write_bytes(SECRET)
    path.chmod(0o600)
    assert noise.read_secret(path) == SECRET
    path.chmod(mode)
    with pytest.raises(ConfigError):
        noise.read_secret(path)


def test_a_secret_that_is_no_file_is_refused(tmp_path: Path) -> None:
    tmp_path.chmod(0o700)
    for path in (tmp_path, tmp_path / "absent"):
        with pytest.raises(ConfigError):
            noise.read_secret(path)


def test_a_secret_is_read_from_base64_of_32_bytes_and_nothing_else() -> None:
    text = base64.b64encode(SECRET).decode()
    assert noise.secret_from_text(text, "OPBOOST_SECRET") == SECRET
    for wrong in ("", "no base64", text[:-4], text + text, base64.b64encode(SECRET[1:]).decode()):
        with pytest.raises(ConfigError) as caught:
            noise.secret_from_text(wrong, "OPBOOST_SECRET")
        assert not wrong or wrong not in str(caught.value)


def test_keys_differ_by_all_that_they_are_for_and_by_nothing_else() -> None:
    other = SECRET[::-1]
    seeds = [
        *(noise.run_seed(secret, "f", "r", b"s") for secret in (SECRET, other)),
        *(noise.run_seed(SECRET, *place) for place in (("g", "r", b"s"), ("f", "q", b"s"))),
        noise.run_seed(SECRET, "f", "r", b"t"),
        *(noise.checkpoint_key(secret, "f", "r") for secret in (SECRET, other)),
        *(noise.checkpoint_key(SECRET, *place) for place in (("g", "r"), ("f", "q"))),
    ]
    assert len(set(seeds)) == 9
    assert {len(seed) for seed in seeds} == {32}
    assert noise.run_seed(SECRET, "f", "r", b"s") == seeds[0]
    shown = {noise.fingerprint(secret) for secret in (SECRET, other, SECRET)}
    assert len(shown) == 2
    assert {len(bytes.fromhex(each)) for each in shown} == {8}
