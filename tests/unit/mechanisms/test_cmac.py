"""Keyed hashes of IDs: AES-CMAC of all of them at once."""

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from cryptography.hazmat.primitives.ciphers import algorithms
from cryptography.hazmat.primitives.cmac import CMAC
from hypothesis import given, settings
from hypothesis import strategies as st

from opboost_ops.errors import ContractError
from opboost_ops.mechanisms import cmac, noise

SECRET = bytes(range(32))


def plain(key: bytes, message: bytes) -> bytes:
    mac = CMAC(algorithms.AES(key))
    mac.update(message)
    return mac.finalize()


TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=70)


@settings(max_examples=60, deadline=None)
@given(st.lists(TEXT, max_size=40), st.binary(min_size=32, max_size=32), st.integers(0, 3))
def test_texts_are_those_of_the_library(texts: list[str], key: bytes, left_out: int) -> None:
    array = pa.array(texts, pa.string()).slice(min(left_out, len(texts)))
    found = cmac.keys_of_texts(key, b"s", array)
    assert [row.tobytes() for row in found] == [
        plain(key, b"s" + text.encode()) for text in texts[left_out:]
    ]


@settings(max_examples=40, deadline=None)
@given(st.lists(st.integers(-(2**63), 2**64 - 1), max_size=40), st.binary(min_size=16, max_size=16))
def test_integers_are_those_of_the_library(numbers: list[int], key: bytes) -> None:
    for kind, fitting in (
        (np.int64, [n for n in numbers if n < 2**63]),
        (np.uint64, [n for n in numbers if n >= 0]),
    ):
        found = cmac.keys_of_integers(key, b"i", np.array(fitting, dtype=kind))
        assert [row.tobytes() for row in found] == [
            plain(key, b"i" + n.to_bytes(15, "little", signed=True)) for n in fitting
        ]


@pytest.mark.parametrize("length", range(50))
def test_messages_of_every_length(length: int) -> None:
    messages = np.arange(3 * length, dtype=np.uint8).reshape(3, length)
    found = cmac.cmac(SECRET, messages)
    assert [f.tobytes() for f in found] == [plain(SECRET, m.tobytes()) for m in messages]


def test_more_rows_than_are_done_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    texts, numbers = pa.array([f"p{i * i}" for i in range(50)]), np.arange(50)
    whole = cmac.keys_of_texts(SECRET, b"s", texts), cmac.keys_of_integers(SECRET, b"i", numbers)
    monkeypatch.setattr(cmac, "_BATCH_ROWS", 7)
    assert np.array_equal(cmac.keys_of_texts(SECRET, b"s", texts), whole[0])
    assert np.array_equal(cmac.keys_of_integers(SECRET, b"i", numbers), whole[1])


def test_the_same_ids_however_they_are_written() -> None:
    secret, texts = SECRET, ["a", "bcd", "", "bcd", "p" * 40]
    expected = noise.person_keys(secret, pa.array(texts), "string")
    for array in (
        pa.array(texts, pa.large_string()),
        pa.array(texts, pa.string_view()),
        pa.array(texts).dictionary_encode(),
        pa.chunked_array([texts[:2], [], texts[2:]]),
    ):
        assert np.array_equal(noise.person_keys(secret, array, "string"), expected)
    numbers = noise.person_keys(secret, pa.array([1, 2, 2]), "integer")
    for kind in (pa.int8(), pa.uint64()):
        array = pa.array([1, 2, 2], kind)
        assert np.array_equal(noise.person_keys(secret, array, "integer"), numbers)
    assert len({row.tobytes() for row in [*expected, *numbers]}) == 4 + 2
    assert noise.person_keys(secret, pa.chunked_array([], pa.string()), "string").shape == (0, 16)


@pytest.mark.parametrize(
    ("ids", "kind"),
    [
        (pa.array(["a", None]), "string"),
        (pa.array([1, None]), "integer"),
        (pa.array([1, 2]), "string"),
        (pa.array(["1", "2"]), "integer"),
        (pa.array([1.0, 2.0]), "integer"),
        (pa.array([True, False]), "integer"),
    ],
)
def test_ids_that_are_missing_or_of_another_type(ids: pa.Array, kind: Any) -> None:
    with pytest.raises(ContractError, match="ID column"):
        noise.person_keys(SECRET, ids, kind)
