"""Keyed noise: the same cell the same output, anything else other words."""

import os
import uuid
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from opboost_ops.domain import Domain, DomainMap
from opboost_ops.errors import ConfigError, ContractError
from opboost_ops.mechanisms import noise
from opboost_ops.mechanisms.global_map import GlobalMap
from opboost_ops.mechanisms.release import CHUNK, randomise

SECRET = bytes(range(32))
COLUMN = uuid.UUID(int=1)
IDS = pa.array([f"person {i}" for i in range(2000)])
KEYS = noise.person_keys(SECRET, IDS, "string")
VALUES = np.arange(2000, dtype=np.int64) % 10 + 1


def words(**changes: object) -> np.ndarray:
    facts = {
        "secret": SECRET,
        "column": COLUMN,
        "context": b"map and mechanism",
        "keys": KEYS,
        "values": VALUES,
        "output": 0,
        **changes,
    }
    return noise.cell_words(**facts)  # type: ignore[arg-type]


def test_the_same_cells_give_the_same_words() -> None:
    assert (words() == words()).all()
    order = np.argsort(words())
    assert (words(keys=KEYS[order], values=VALUES[order]) == words()[order]).all()
    assert (words(keys=KEYS[:7], values=VALUES[:7]) == words()[:7]).all()


@pytest.mark.parametrize(
    "change",
    [
        {"secret": bytes(31) + b"\x01"},
        {"column": uuid.UUID(int=2)},
        {"context": b"another map"},
        {"values": VALUES + 1},
        {"output": 1},
        {"keys": noise.person_keys(SECRET[::-1], IDS, "string")},
    ],
    ids=lambda change: next(iter(change)),
)
def test_any_other_cell_gives_other_words(change: dict[str, object]) -> None:
    changed = words(**change)
    assert not (changed == words()).any()
    # Not shifted either: 64 words that no other cell has.
    assert not set(changed.tolist()) & set(words().tolist())


def test_each_receiver_has_a_secret_of_its_own() -> None:
    secrets = {noise.receiver_secret(SECRET, name) for name in ("credit", "shop", "")}
    assert len(secrets) == 3
    assert all(len(secret) == 32 for secret in secrets)
    assert SECRET not in secrets
    assert noise.receiver_secret(SECRET, "credit") == noise.receiver_secret(SECRET, "credit")


def release(**changes: object) -> np.ndarray:
    facts = {
        "values": VALUES,
        "person_keys": KEYS,
        "mechanism": GlobalMap(epsilon=0.5),
        "domain": Domain(1, 10),
        "map_digest": DomainMap(Domain(1, 10), (0.0, 1.0)).digest(),
        "secret": SECRET,
        "column_uuid": COLUMN,
        **changes,
    }
    return randomise(**facts)  # type: ignore[arg-type]


def test_a_release_repeats_itself_and_stays_inside() -> None:
    out = release()
    assert (out == release()).all()
    assert out.dtype == np.int64
    assert set(out.tolist()) == set(range(1, 11))
    assert (out != VALUES).mean() > 0.5


@pytest.mark.parametrize(
    "change",
    [
        {"secret": SECRET[::-1]},
        {"column_uuid": uuid.UUID(int=9)},
        {"map_digest": DomainMap(Domain(1, 10), (0.0, 2.0)).digest()},
        {"mechanism": GlobalMap(epsilon=0.5000001)},
    ],
    ids=lambda change: next(iter(change)),
)
def test_another_release_has_independent_noise(change: dict[str, object]) -> None:
    """Two independent draws agree far less often than a draw with itself."""
    agree = (release(**change) == release()).mean()
    probabilities = GlobalMap(epsilon=0.5).channel(Domain(1, 10)).probabilities()
    expected = float((probabilities**2).sum(axis=1).mean())
    # 2,000 cells: a standard deviation is below 0.0112, and six of them are allowed.
    assert abs(agree - expected) < 0.067


@pytest.mark.parametrize("value", [0, 11, -(2**40)])
def test_a_value_outside_the_domain_is_never_released(value: int) -> None:
    values = VALUES.copy()
    values[3] = value
    with pytest.raises(ContractError, match="outside the declared domain") as caught:
        release(values=values)
    assert str(value) not in str(caught.value)


def test_a_row_does_not_depend_on_the_rows_beside_it() -> None:
    """Rows are released in chunks; a shifted table meets their borders elsewhere."""
    people = 2 * CHUNK + 1234
    values = np.arange(people, dtype=np.int64) % 10 + 1
    keys = noise.person_keys(SECRET, pa.array(range(people)), "integer")
    whole = release(values=values, person_keys=keys)
    shifted = release(values=values[777:], person_keys=keys[777:])
    assert (whole[777:] == shifted).all()
    assert (whole[-5:] == release(values=values[-5:], person_keys=keys[-5:])).all()


def test_a_key_for_each_purpose() -> None:
    keys = {noise.keyed_by(seed, use) for seed in (SECRET, bytes(32)) for use in ("a", "b")}
    assert len(keys) == 4
    assert {len(key) for key in keys} == {32}
    assert noise.keyed_by(SECRET, "a") == noise.keyed_by(SECRET, "a")


@pytest.mark.parametrize("size", [0, 31, 64])
def test_a_secret_of_another_size_is_refused(tmp_path: Path, size: int) -> None:
    path = tmp_path / "noise.secret"
    path.write_bytes(os.urandom(size))
    path.chmod(0o600)
    with pytest.raises(ConfigError, match=f"has {size} bytes instead of 32"):
        noise.read_secret(path)
