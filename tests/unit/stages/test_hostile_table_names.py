"""Names of tables and columns are names in a database, whatever they say."""

import sqlite3
from pathlib import Path

import pyarrow as pa
import pytest
from pydantic import ValidationError

from opboost_ops.config.source import Sink
from opboost_ops.scratch.arrays import Scratch
from opboost_ops.stages.sinks import deliver

DROP = 'x" (a); DROP TABLE others; --'


@pytest.mark.parametrize("table", [DROP, "a'; DROP TABLE others; --", "a.b.c", "others;"])
def test_a_table_has_a_plain_name(table: str, tmp_path: Path) -> None:
    with pytest.raises(ValidationError):
        Sink(at=f"sqlite:///{tmp_path}/scores.sqlite", table=table)


@pytest.mark.parametrize("column", ["class", DROP, "probability_'; DROP TABLE others; --"])
def test_a_column_is_called_what_a_class_is_called(column: str, tmp_path: Path) -> None:
    file = tmp_path / "scores.sqlite"
    with sqlite3.connect(file) as database:
        database.execute("CREATE TABLE others (a)")
    sink = Sink(at=f"sqlite:///{file}", table="scores")
    rows = pa.table({"id": ["p1", "p2"], column: [DROP, "b"], "version": ["v", "v"]})

    for _ in range(2):
        deliver(sink, lambda: iter([rows]), "version", "v", "n" * 16, Scratch(tmp_path))

    with sqlite3.connect(file) as database:
        names = {name for (name,) in database.execute("SELECT name FROM sqlite_master")}
        found = database.execute("SELECT * FROM scores").fetchall()
    assert names == {"others", "scores"}
    assert [row[:2] for row in found] == [("p1", DROP), ("p2", "b")]
