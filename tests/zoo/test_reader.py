"""Every odd table through the reader: read with its one meaning, or refused for its one cause."""

import math
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from opboost_ops.config.source import Source
from opboost_ops.errors import OpBoostError
from opboost_ops.extras.setup.columns import first_columns
from opboost_ops.extras.setup.tables import read_table, require_sound
from opboost_ops.tables.columns import Expected
from opboost_ops.tables.copies import copy
from opboost_ops.tables.local import read_local
from tests.zoo import ALL
from tests.zoo.odd import TOLD, Odd

ROWS = 30


@pytest.mark.parametrize("odd", ALL, ids=lambda odd: odd.name)
def test_an_odd_table_has_one_meaning(odd: Odd, tmp_path: Path) -> None:
    path = odd.write(tmp_path / "table", ROWS)
    columns = {"id": Expected("id", "text")}
    if odd.kind is not None:
        columns["x"] = Expected("x", odd.kind)  # type: ignore[arg-type]
    target = tmp_path / "copy.parquet"
    readers = {
        "copy": lambda: copied(path, odd, target, columns),
        "command": lambda: read_local(path, columns, odd.dialect),
    }
    if odd.kind is None:
        readers["init"] = lambda: of_init(path, odd)
    for name, read in readers.items():
        if odd.refused and (odd.by == "reader" or name == "init"):
            with pytest.raises(OpBoostError, match=odd.meaning):
                read()
            continue
        frame, left_out = read()
        if odd.meaning == TOLD:
            told = left_out | first_columns(frame, "id", None, None, {}, left_out).left_out
            assert "x" in told, name
            continue
        if odd.refused:
            continue
        found = dict(zip(frame["id"].to_list(), map(plain, frame["x"].to_list()), strict=True))
        assert found == odd.means(ROWS), name
        assert "x" not in left_out, name


def plain(value: Any) -> Any:
    return None if isinstance(value, float) and math.isnan(value) else value


def copied(
    path: Path, odd: Odd, target: Path, columns: dict[str, Expected]
) -> tuple[pl.DataFrame, dict[str, str]]:
    source = Source.model_validate({"at": str(path), **odd.dialect})
    found = copy(source, "bank", target, columns, "id")
    return pl.read_parquet(target, glob=False), dict(found.left_out)


def of_init(path: Path, odd: Odd) -> tuple[pl.DataFrame, dict[str, str]]:
    frame, place, left_out = read_table("bank", str(path), None, "id", odd.dialect)
    if frame.height:
        require_sound("bank", frame, place, "id", None)
    return frame, left_out
