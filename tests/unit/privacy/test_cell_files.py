"""Files of cell states: people once for all columns, former files read, nothing lost in between."""

import json
import os
import uuid
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from opboost_ops.domain import Domain
from opboost_ops.errors import BudgetError
from opboost_ops.privacy.cell_files import Mark
from opboost_ops.privacy.cells import Cells
from opboost_ops.privacy.database import Database
from opboost_ops.privacy.draws import read_mark
from opboost_ops.privacy.ledger import Ledger
from opboost_ops.scratch.arrays import Scratch
from tests.archives import unpack
from tests.unit.privacy.test_draws import COLUMN, CONTEXT, TEN, Party

GOLDEN = Path(__file__).parents[2] / "golden" / "cells-0.2.0.tar.xz"
COLUMNS = [uuid.UUID(int=i) for i in range(1, 4)]
KEY = CONTEXT.hex()[:16]


def draw(cells: Cells, people: list[int], values: list[int], columns: list[uuid.UUID]) -> None:
    who = np.array(people, dtype=np.uint64)
    for column in columns:
        cells.charge(column, CONTEXT, who, np.array(values), TEN, Mark(1, 1, 0, "a" * 64))
    cells.tidy()


def peoples(folder: Path) -> list[int]:
    """How many people each file of them has."""
    return sorted(path.stat().st_size // 8 for path in folder.glob("*.people"))


def test_columns_that_were_drawn_together_have_one_file_of_people(tmp_path: Path) -> None:
    cells = Cells(tmp_path)
    draw(cells, [1, 2, 3], [1, 2, 3], COLUMNS)
    assert peoples(tmp_path) == [3]
    draw(cells, [2, 3, 4], [1, 2, 3], COLUMNS)
    assert peoples(tmp_path) == [4]
    # A part of the known is nobody new, and columns of two draws keep two.
    draw(cells, [2, 3], [5, 5], COLUMNS)
    assert peoples(tmp_path) == [4]
    draw(cells, [8, 9], [5, 5], COLUMNS[:1])
    assert peoples(tmp_path) == [4, 6]
    assert [len(cells.read(c, CONTEXT, TEN).people) for c in COLUMNS] == [6, 4, 4]
    assert cells.read(COLUMNS[0], CONTEXT, TEN).changes().tolist() == [1, 3, 3, 1, 1, 1]


def test_a_file_of_which_nothing_changes_is_not_written(tmp_path: Path) -> None:
    cells = Cells(tmp_path)
    draw(cells, [1, 2, 3], [1, 2, 3], COLUMNS)
    before = {path.name: path.stat().st_mtime_ns for path in tmp_path.iterdir()}
    draw(cells, [1, 2, 3], [4, 2, 3], COLUMNS[:1])
    after = {path.name: path.stat().st_mtime_ns for path in tmp_path.iterdir()}
    changed = {name for name in after if after[name] != before[name]}
    assert changed == {cells.path(COLUMNS[0], KEY).name}


def test_whoever_reads_while_people_change_finds_the_new_ones(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer, reader = Cells(tmp_path), Cells(tmp_path)
    draw(writer, [1, 2], [1, 1], [COLUMN])
    from opboost_ops.privacy import cell_files

    read, done = cell_files._read, []

    def between(path: Path, scratch: Scratch) -> Any:
        table = read(path, scratch)
        if not done:
            done.append(True)
            draw(writer, [3], [1], [COLUMN])
        return table

    monkeypatch.setattr(cell_files, "_read", between)
    assert reader.load(reader.path(COLUMN, KEY)).people.tolist() == [1, 2, 3]


@pytest.mark.parametrize("how", ["gone", "cut", "changed"])
def test_without_its_people_a_state_is_lost(tmp_path: Path, how: str) -> None:
    party = Party(tmp_path)
    party.take([1, 2, 3], 2)
    (people,) = (tmp_path / "cells").glob("*.people")
    if how == "gone":
        people.unlink()
    elif how == "cut":
        os.truncate(people, 8)
    else:
        people.write_bytes(bytes(people.stat().st_size))
    party.cells = Cells(tmp_path / "cells")
    assert (read_mark(party.cells, COLUMN, KEY) is None) == (how != "changed")
    with pytest.raises(BudgetError, match="ledger accept"):
        party.take([2, 2, 3], 2)
    assert party.worst() == (1, 1)


def test_the_forgotten_are_in_no_file(tmp_path: Path) -> None:
    unpack(GOLDEN, tmp_path, "data")
    cells = Cells(tmp_path / "cells")
    said = json.loads((tmp_path / "said.json").read_text())
    gone = np.array([int(next(iter(one["people"]))) for one in said.values()], dtype=np.uint64)
    paths = [path for paths in cells.columns().values() for path in paths]
    cells.stamp(paths[0], Mark(4, 2, 0, "b" * 64))
    cells.forget(gone)
    kept = [path for path in tmp_path.rglob("*") if path.suffix in (".parquet", ".people")]
    assert {path.parent.name for path in kept} == {"cells"}
    found = set()
    for path in kept:
        found |= {p.tobytes() for p in gone if p.tobytes() in path.read_bytes()}
    assert not found


def test_cells_of_0_2_0_are_read_and_merged_person_by_person(tmp_path: Path) -> None:
    unpack(GOLDEN, tmp_path, "data")
    said = json.loads((tmp_path / "said.json").read_text())
    cells = Cells(tmp_path / "cells")
    former = {path.name: path.read_bytes() for path in (tmp_path / "cells").iterdir()}

    def as_said() -> None:
        for place, one in said.items():
            column, key = uuid.UUID(place[:36]), place[37:]
            state = cells.load(cells.path(column, key))
            bits = np.unpackbits(state.seen, axis=1, bitorder="little")
            assert {
                str(person): {"released": (np.flatnonzero(row) + 1).tolist(), "last": last + 1}
                for person, row, last in zip(
                    state.people.tolist(), bits, state.last.tolist(), strict=True
                )
            } == one["people"]

    as_said()
    assert {path.name: path.read_bytes() for path in (tmp_path / "cells").iterdir()} == former
    for place, one in said.items():
        column, key = uuid.UUID(place[:36]), place[37:]
        mark, state = cells.mark(cells.path(column, key)), cells.load(cells.path(column, key))
        domain = Domain(1, one["domain"])
        values = state.last.astype(np.int64) + 1
        # At its cap or not, a cell that asks for what it released last releases that.
        held = cells.hold(column, bytes.fromhex(key) * 4, state.people, values, domain, 1)
        assert held.tolist() == values.tolist()
        cells.charge(column, bytes.fromhex(key) * 4, state.people, held, domain)
        assert cells.mark(cells.path(column, key)) == mark
    cells.tidy()
    as_said()
    kept = tmp_path / "cells.before-shared"
    assert {path.name: path.read_bytes() for path in kept.iterdir()} == former
    for place in said:
        assert cells.former(uuid.UUID(place[:36]), place[37:]) is not None
        cells.drop_former(uuid.UUID(place[:36]), place[37:])
    assert not kept.exists()


def test_the_run_of_a_draw_is_known_by_its_number(tmp_path: Path) -> None:
    party = Party(tmp_path)
    party.take([1, 2], 2)
    (line,) = party.lines()
    ledger = Ledger(Database(party.url))
    assert ledger.run_of(COLUMN, KEY, 1) == line.run != ""
    assert ledger.run_of(COLUMN, KEY, 2) == ""
