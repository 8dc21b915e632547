"""Scores are delivered whole or not at all, as often as a task is tried."""

import csv
import io
import re
import sqlite3
import tempfile
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from pydantic import ValidationError

from opboost_ops.config.source import Sink
from opboost_ops.errors import ConfigError, ContractError
from opboost_ops.pipeline.evaluation.scores import deliver
from opboost_ops.reports.display.tables import csv_text, plain_texts, text_of
from opboost_ops.tables.spill.arrays import Scratch
from tests.federation import Workspace

DROP = 'x" (a); DROP TABLE others; --'

SCORES = pl.DataFrame(
    {
        "id": ["a", "b"],
        "score": [0.25, 0.5],
        "class": ["no", None],
        "reasons": [["x", "y"], None],
        "model_version": ["v1", "v1"],
    }
)


def send(
    at: Path | str, frame: pl.DataFrame = SCORES, name: str = "local-1", **declared: Any
) -> None:
    sink = Sink.model_validate({"at": str(at), **declared})
    deliver(
        sink,
        # A row is a row group.
        lambda: (part.to_arrow() for part in frame.iter_slices(1)),
        "model_version",
        "v1",
        name,
        Scratch(Path(tempfile.gettempdir())),
    )


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_files(tmp_path: Path, kind: str) -> None:
    for _ in range(2):
        send(tmp_path / "out", format=kind)
    (file,) = (path for path in tmp_path.rglob("*") if path.is_file())
    assert file == tmp_path / "out" / "v1" / f"local-1.{kind}"
    found = pl.read_csv(file) if kind == "csv" else pl.read_parquet(file)
    assert found.drop("reasons").equals(SCORES.drop("reasons"))
    assert found.get_column("reasons").to_list() == ['["x", "y"]', None]


def test_a_table_of_a_database(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'scores.db'}"
    for _ in range(2):
        send(url, table="scores")
    send(url, SCORES.head(1).with_columns(score=0.75), "local-2", table="scores")
    with sqlite3.connect(tmp_path / "scores.db") as database:
        rows = database.execute(
            "SELECT id, score, model_version, scored_rows FROM scores ORDER BY scored_rows, id"
        ).fetchall()
    assert rows == [
        ("a", 0.25, "v1", "local-1"),
        ("b", 0.5, "v1", "local-1"),
        ("a", 0.75, "v1", "local-2"),
    ]


@pytest.mark.parametrize("column", ["class", DROP, "probability_'; DROP TABLE others; --"])
def test_a_column_is_called_what_a_class_is_called(column: str, tmp_path: Path) -> None:
    with sqlite3.connect(tmp_path / "scores.db") as database:
        database.execute("CREATE TABLE others (a)")
    rows = SCORES.select("id", pl.Series(column, [DROP, "b"]), "model_version")
    for _ in range(2):
        send(f"sqlite:///{tmp_path / 'scores.db'}", rows, table="scores")
    with sqlite3.connect(tmp_path / "scores.db") as database:
        names = {name for (name,) in database.execute("SELECT name FROM sqlite_master")}
        found = database.execute("SELECT * FROM scores").fetchall()
    assert names == {"others", "scores"}
    assert [row[:2] for row in found] == [("a", DROP), ("b", "b")]


def test_a_table_with_other_columns_keeps_what_it_has(tmp_path: Path) -> None:
    with sqlite3.connect(tmp_path / "scores.db") as database:
        database.execute("CREATE TABLE scores (model_version TEXT, scored_rows TEXT)")
        database.execute("INSERT INTO scores VALUES ('v1', 'local-1')")
    with pytest.raises(ContractError, match="does not take the scores") as caught:
        send(f"sqlite:///{tmp_path / 'scores.db'}", table="scores")
    assert str(tmp_path) not in str(caught.value) and "INSERT" not in str(caught.value)
    with sqlite3.connect(tmp_path / "scores.db") as database:
        assert database.execute("SELECT * FROM scores").fetchall() == [("v1", "local-1")]


def test_no_message_shows_a_password() -> None:
    with pytest.raises(ConnectionError) as caught:
        send("postgresql://me:hunter2@127.0.0.1:1/scores", table="scores")
    assert "hunter2" not in str(caught.value)


def test_a_folder_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "out").touch()
    with pytest.raises(ConfigError, match="folder of scores"):
        send(tmp_path / "out")


@pytest.mark.parametrize(
    ("declared", "word"),
    [
        ({"at": "postgresql://host/scores"}, "table is required"),
        ({"at": "out", "table": "scores"}, "only for a database"),
        *(
            ({"at": "sqlite:///x", "table": table}, "pattern")
            for table in (DROP, "a'; DROP TABLE others; --", "a.b.c", "others;")
        ),
    ],
)
def test_a_faulty_declaration(declared: dict[str, Any], word: str) -> None:
    with pytest.raises(ValidationError, match=word):
        Sink.model_validate(declared)


def test_a_scoring_run_delivers(workspace: Workspace, tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'scores.db'}"
    workspace.declare(
        "credit/site.yaml", tables={"credit_scoring": {"scores_to": {"at": url, "table": "scores"}}}
    )
    scoring = workspace.scoring()
    rows = scoring.all()["credit.write_scores"]["rows"]
    scoring.step("credit", "write_scores")
    with sqlite3.connect(tmp_path / "scores.db") as database:
        found = database.execute("SELECT count(*), count(DISTINCT id) FROM scores").fetchone()
    assert found == (rows, rows)


def test_no_cell_of_a_csv_is_a_formula(tmp_path: Path) -> None:
    """Names of features come from other parties, and people open scores in spreadsheets."""
    formula = "@SUM(1+1)*cmd|'calc'!A0"
    scores = SCORES.with_columns(
        pl.Series("id", ["+49 170", "b"]), pl.Series("reason_1_feature", [formula, "\uff1d1+1"])
    ).rename({"class": "-class"})
    send(tmp_path / "out", scores, format="csv")
    found = pl.read_csv(next(tmp_path.rglob("*.csv")))
    assert found["reason_1_feature"].to_list() == [f"'{formula}", "'\uff1d1+1"]
    assert "'-class" in found.columns
    # The party's own IDs are joined by programs.
    assert found["id"].to_list() == ["+49 170", "b"]
    send(tmp_path / "parquet", scores, format="parquet")
    assert pl.read_parquet(next(tmp_path.rglob("*.parquet")))["reason_1_feature"][0] == formula


@given(st.lists(st.text("x=+-@\uff1d;,\t\r\n'\" "), min_size=1, max_size=3))
@example(["x;=cmd|'/C calc'!A0"])
def test_no_cell_is_a_formula_wherever_cells_are_separated(cells: list[str]) -> None:
    """A country's spreadsheets separate by semicolons; others split at tabs, too."""
    text = csv_text(cells, [])
    frame = plain_texts(pl.DataFrame({"id": ["a"], "x": cells[:1]}), ["id"])
    for written in (text, frame.write_csv(include_header=False).partition(",")[2]):
        for cell in re.split("[;\t\r\n]", written):
            assert cell.lstrip('" ')[:1] not in {*"=+-@\uff1d"}
    (row,) = csv.reader(io.StringIO(text, newline=""))
    assert list(map(text_of, row)) == cells


def test_texts_come_back_from_a_spreadsheet() -> None:
    lines = csv_text(["=a"], [["@b"], ["c"], ["'d"]]).splitlines()
    assert lines == ["'=a", "'@b", "c", "'d"]
    assert [text_of(line) for line in lines] == ["=a", "@b", "c", "'d"]
