"""What waits on the disk gives what arrays in memory give, and leaves nothing there."""

import os
import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from opboost_ops.tables.spill import arrays
from opboost_ops.tables.spill.arrays import ROWS, Scratch, slices
from opboost_ops.tables.spill.parts import gather, partition_by_hash, scatter


@given(st.integers(1, 60), st.integers(1, 70), st.integers(0, 80), st.integers(0, 2**32))
def test_look_ups_are_those_in_memory(held: int, height: int, wanted: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    rows = rng.integers(0, height, wanted)
    columns = [rng.integers(0, 9, height), rng.integers(0, 256, (height, 16), dtype=np.uint8)]
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr(arrays, "BLOCK", 1 + seed % 20)
        scratch = Scratch(Path(folder), held)
        for column in columns:
            found = gather(scratch, column, rows)
            assert found.dtype == column.dtype
            assert np.array_equal(found, column[rows])
        # Back to where they came from, in blocks of any size, and with places that nobody names.
        order = rng.permutation(height)[: max(height - 3, 1)]
        size = int(rng.integers(1, height + 1))
        pieces = (
            (order[at], {"a": columns[0][order[at]], "b": columns[1][order[at]]})
            for at in slices(len(order), size)
        )
        kinds = {"a": np.int64, "b": ("u1", (16,))}
        back = scatter(scratch, pieces, height, kinds)
        named = np.isin(np.arange(height), order)
        assert np.array_equal(back["a"], np.where(named, columns[0], 0))
        assert np.array_equal(back["b"], np.where(named[:, None], columns[1], 0))
        assert not os.listdir(folder)


@given(st.integers(1, 60), st.lists(st.integers(0, 2**16 - 1), min_size=1, max_size=80))
def test_parts_follow_one_another_and_keep_what_came_first(held: int, hashes: list[int]) -> None:
    kind = np.dtype([("hash", "u2"), ("row", "u4")])
    records = np.array(list(zip(hashes, range(len(hashes)), strict=True)), dtype=kind)
    with tempfile.TemporaryDirectory() as folder:
        pieces = (records[at] for at in slices(len(records), 7))
        parts = list(
            partition_by_hash(
                Scratch(Path(folder), held), pieces, len(records), lambda r: r["hash"]
            )
        )
        found = np.concatenate([part[np.argsort(part["hash"], kind="stable")] for part in parts])
    assert np.array_equal(found, records[np.argsort(records["hash"], kind="stable")])
    if len(records) > held:
        assert len(parts) > 1


def test_an_array_on_disk_has_no_name_and_goes_with_its_last_view(tmp_path: Path) -> None:
    scratch = Scratch(tmp_path, 10)
    before = os.listdir("/proc/self/fd")
    whole = scratch.zeros(1000, np.uint32)
    whole[:] = np.arange(1000)
    part = whole[990:]
    del whole
    arrays.release_memory()
    assert part.tolist() == list(range(990, 1000))
    assert not os.listdir(tmp_path)
    maps = [
        line for line in Path("/proc/self/maps").read_text().splitlines() if str(tmp_path) in line
    ]
    assert len(maps) == 1
    assert "(deleted)" in maps[0]
    del part
    assert str(tmp_path) not in Path("/proc/self/maps").read_text()
    assert os.listdir("/proc/self/fd") == before


def test_a_disk_without_room_is_an_error_before_the_first_byte(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(file: int, begin: int, size: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(arrays, "posix_fallocate", full)
    with pytest.raises(OSError, match="No space"):
        Scratch(tmp_path, 10).zeros(1000, np.uint32)
    assert Scratch(tmp_path, ROWS).zeros(1000, np.uint32).sum() == 0
