"""Every odd table through the reader: read with its one meaning, or refused for its one cause."""

from pathlib import Path

import polars as pl
import pytest

from opboost_ops.config.source import Source
from opboost_ops.errors import OpBoostError
from opboost_ops.tables.copies import copy
from opboost_ops.tables.expected import Expected
from opboost_ops.tables.local import read_local
from tests.zoo.tables import ALL, Odd


@pytest.mark.parametrize("odd", ALL, ids=lambda odd: odd.name)
def test_an_odd_table_has_one_meaning(odd: Odd, tmp_path: Path) -> None:
    path = tmp_path / f"table [1].{odd.ending}"
    path.write_bytes(odd.content)
    columns = {"id": Expected("id", "text")}
    if odd.kind is not None:
        columns["x"] = Expected("x", odd.kind)  # type: ignore[arg-type]
    source = Source.model_validate({"at": str(path), **odd.dialect})
    target = tmp_path / "copy.parquet"
    refused = isinstance(odd.meaning, str) and odd.meaning != "left as text"
    if refused:
        with pytest.raises(OpBoostError, match=odd.meaning):
            copy(source, "bank", target, columns, "id")
        with pytest.raises(OpBoostError, match=odd.meaning):
            read_local(path, columns, odd.dialect)
        return
    copied = copy(source, "bank", target, columns, "id")
    frame, left_out = read_local(path, columns, odd.dialect)
    copied_rows = pl.read_parquet(target, glob=False)
    assert copied_rows.to_dict(as_series=False) == frame.sort("id").to_dict(as_series=False)
    assert left_out == copied.left_out
    values = copied_rows.get_column("x")
    if odd.meaning == "left as text":
        assert values.dtype == pl.String
        assert "could be read in several ways" in left_out.get("x", "") or odd.kind is None
    else:
        assert values.to_list() == odd.meaning
        assert "x" not in left_out
