"""Cell states: what was released is remembered, a cell at its cap repeats itself."""

import uuid
from pathlib import Path

import numpy as np
import polars as pl
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from opboost_ops.domain import Domain
from opboost_ops.exchange.party_state import reuse_open_state
from opboost_ops.privacy.cells import Cells
from opboost_ops.privacy.database import Database
from opboost_ops.scratch import arrays
from opboost_ops.scratch.arrays import Scratch
from tests.federation import Workspace

COLUMN, CONTEXT = uuid.UUID(int=7), bytes(32)
TEN = Domain(-2, 9)


def cells_in(folder: Path, scratch: Scratch | None = None) -> Cells:
    folder.mkdir(exist_ok=True, mode=0o700)
    return Cells(folder, Database(f"sqlite:///{folder.parent / folder.name}.sqlite"), scratch)


def night(
    cells: Cells, people: list[int], values: list[int], most: int | None, freeze: bool = False
) -> list[int]:
    """One release: what goes out, after it was charged."""
    order = np.argsort(np.array(people, dtype=np.uint64))
    who = np.array(people, dtype=np.uint64)[order]
    held = cells.hold(COLUMN, CONTEXT, who, np.array(values)[order], TEN, most, freeze=freeze)
    cells.charge(COLUMN, CONTEXT, who, held, TEN)
    return held[np.argsort(order)].tolist()


def test_a_cell_at_its_cap_keeps_its_last_charged_value(tmp_path: Path) -> None:
    cells = cells_in(tmp_path)
    assert night(cells, [5, 3], [1, 1], 2) == [1, 1]
    assert night(cells, [5, 3], [2, 1], 2) == [2, 1]
    # Person 5 has released 1 and 2: a third value is not released, an old one is.
    assert night(cells, [3, 5], [4, 3], 2) == [4, 2]
    assert night(cells, [3, 5], [9, 1], 2) == [4, 1]
    assert night(cells, [3, 5], [9, 9], 2) == [4, 1]
    assert cells.read(COLUMN, CONTEXT, TEN).changes().tolist() == [2, 2]


def test_a_frozen_cell_does_not_return_to_an_earlier_value(tmp_path: Path) -> None:
    cells = cells_in(tmp_path)
    for values in ([1, 1], [2, 1], [1, 2], [3, 1], [2, 3]):
        held = night(cells, [5, 3], values, 2, freeze=True)
        # A retry on the same values changes nothing.
        assert night(cells, [5, 3], values, 2, freeze=True) == held
    assert held == [2, 2]
    assert cells.read(COLUMN, CONTEXT, TEN).changes().tolist() == [2, 2]


def test_without_a_cap_everything_goes_and_is_counted(tmp_path: Path) -> None:
    cells = cells_in(tmp_path)
    for value in range(-2, 10):
        assert night(cells, [1], [value], None) == [value]
    assert cells.read(COLUMN, CONTEXT, TEN).changes().tolist() == [12]


def test_charging_twice_is_charging_once(tmp_path: Path) -> None:
    cells = cells_in(tmp_path)
    night(cells, [1, 2], [3, 4], 3)
    before = cells.read(COLUMN, CONTEXT, TEN)
    night(cells, [1, 2], [3, 4], 3)
    after = cells.read(COLUMN, CONTEXT, TEN)
    assert (before.seen == after.seen).all()
    assert (before.last == after.last).all()


def test_another_noise_key_has_cells_of_its_own(tmp_path: Path) -> None:
    cells = cells_in(tmp_path)
    night(cells, [1], [3], 1)
    who, what = np.array([1], dtype=np.uint64), np.array([4])
    assert cells.hold(COLUMN, b"\x01" * 32, who, what, TEN, 1).tolist() == [4]
    assert cells.hold(COLUMN, CONTEXT, who, what, TEN, 1).tolist() == [3]


def test_forgetting_removes_cells_and_nothing_else(tmp_path: Path) -> None:
    cells = cells_in(tmp_path)
    night(cells, [1, 2, 3], [3, 4, 5], 1)
    assert cells.forget(np.array([2, 9], dtype=np.uint64)) == 1
    state = cells.read(COLUMN, CONTEXT, TEN)
    assert state.people.tolist() == [1, 3]
    assert night(cells, [1, 2, 3], [9, 9, 9], 1) == [3, 9, 5]


def test_files_are_their_owners_alone(tmp_path: Path) -> None:
    cells = cells_in(tmp_path / "cells")
    night(cells, [1], [3], 1)
    night(cells, [1], [4], 2)
    cells.collect()
    files = list((tmp_path / "cells").iterdir())
    assert sorted(path.suffix for path in files) == [".parquet", ".people"]
    assert not any(path.stat().st_mode & 0o077 for path in files)
    assert (tmp_path / "cells").stat().st_mode & 0o077 == 0


@settings(max_examples=60, deadline=None)
@given(
    st.lists(
        st.dictionaries(st.integers(0, 2**64 - 1), st.integers(-2, 9), min_size=1, max_size=6),
        max_size=7,
    ),
    st.integers(1, 3),
    st.integers(1, 9),
    st.booleans(),
)
def test_it_is_a_dictionary_of_sets(
    tmp_path_factory: pytest.TempPathFactory,
    nights: list[dict[int, int]],
    most: int,
    held: int,
    freeze: bool,
) -> None:
    """The same as the plainest model of it, over any history, in memory and on disk."""
    folder = tmp_path_factory.mktemp("cells")
    cells = cells_in(folder, Scratch(folder, held))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(arrays, "BLOCK", 1 + held % 3)
        _compared(cells, nights, most, freeze)


def _compared(cells: Cells, nights: list[dict[int, int]], most: int, freeze: bool) -> None:
    seen: dict[int, set[int]] = {}
    last: dict[int, int] = {}
    for table in nights:
        expected = []
        for person, value in table.items():
            known = seen.setdefault(person, set())
            stays = len(known) >= most and (freeze or value not in known)
            out = last[person] if stays else value
            known.add(out)
            last[person] = out
            expected.append(out)
        assert night(cells, list(table), list(table.values()), most, freeze) == expected
    state = cells.read(COLUMN, CONTEXT, TEN)
    assert dict(zip(state.people.tolist(), state.changes().tolist(), strict=True)) == {
        person: len(values) for person, values in seen.items()
    }


def test_a_key_for_cell_files_holds_from_the_next_stage_of_an_open_process(
    workspace: Workspace,
) -> None:
    workspace.edit_table("bank", lambda t: t.with_columns(pl.col("income").reverse()))
    with reuse_open_state():
        workspace.until("desensitize", "bank")
        key = workspace.folder / "bank" / "keys" / "cells.key"
        key.write_bytes(bytes(32))
        key.chmod(0o600)
        workspace.edit_yaml("bank/site.yaml", lambda data: data.update(cells_key=str(key)))
        workspace.step("bank", "desensitize")
    (written,) = (workspace.folder / "bank" / "cells").glob("*.2.parquet")
    with pytest.raises(OSError, match="encrypted"):
        pq.read_table(written)
