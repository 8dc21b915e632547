"""Tables that are no local Parquet file: read once a run into a copy at the party's home."""

import hashlib
import sqlite3
import stat
import subprocess
import sys
from collections import namedtuple
from decimal import Decimal
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from pydantic import ValidationError

from opboost_ops.cli import check, ledger
from opboost_ops.config.source import Source
from opboost_ops.errors import ConfigError, ContractError, OpBoostError
from opboost_ops.pipeline.party.own_table import changed
from opboost_ops.tables import copies, database
from opboost_ops.tables.columns import Expected
from opboost_ops.tables.copies import copy
from opboost_ops.tables.people import write_sorted
from opboost_ops.tables.raw_values import category_texts
from tests.bad_input.faults import CANARY_TEXT
from tests.federation import Workspace

ROWS = pl.DataFrame(
    {"id": ["b", "a", "c"], "income": [10.5, 2000.25, None], "late": [True, False, True]}
)


def read(folder: Path, text: tuple[str, ...] = ("id",), **declared: Any) -> pl.DataFrame:
    source = Source.model_validate(declared)
    target = folder / "home" / "table.parquet"
    columns = {name: Expected(name, "text") for name in text}
    copy(source, "bank", target, columns, "id")
    assert stat.S_IMODE(target.stat().st_mode) == 0o600
    assert [path.name for path in target.parent.iterdir()] == ["table.parquet"]
    return pl.read_parquet(target)


def same(found: pl.DataFrame, expected: pl.DataFrame = ROWS) -> None:
    assert found.select(expected.columns).to_dict(as_series=False) == expected.sort("id").to_dict(
        as_series=False
    )


@pytest.mark.parametrize("cell", ["31.12.2020", "2020-12-31 10:20", "2020-12-31T10:20:30.5+02:00"])
def test_what_a_column_holds_is_decided_by_all_of_its_cells(tmp_path: Path, cell: str) -> None:
    """Not by its first ones: the last of 30,000 rows makes a number a decimal, a date a text."""
    path = tmp_path / "bank.csv"
    rows = [f"{i},{i},{cell},true" for i in range(30_000)]
    path.write_text("\n".join(["id,a,b,c", *rows, "x,0.5,,"]))
    found = read(tmp_path, at=str(path))
    assert found.schema["a"] == pl.Float64 and found.get_column("a").max() == 29_999
    assert found.schema["b"].is_temporal() and found.schema["c"] == pl.Boolean
    path.write_text("\n".join(["id,a,b,c", *rows, "x,no number,31.02.2020,yes"]))
    found = read(tmp_path, at=str(path))
    assert [found.schema[name] for name in "abc"] == [pl.String] * 3


@pytest.mark.parametrize("rows", [1, 2, 7, 100])
def test_a_table_is_sorted_some_rows_at_a_time(
    tmp_path: Path, rows: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("opboost_ops.tables.people._ROWS", rows)
    ids = ["b", "a", None, "c", "b", "a", None, "b"]
    table = pl.DataFrame({"id": ids, "x": range(8)})
    write_sorted(table.lazy(), "id", tmp_path / "whole.parquet")
    found = pl.read_parquet(tmp_path / "whole.parquet")
    assert found.equals(table.sort("id", maintain_order=True))
    write_sorted(table.lazy(), "id", tmp_path / "some.parquet", lambda part: part != "b")
    some = pl.read_parquet(tmp_path / "some.parquet")
    assert some.equals(found.filter(pl.col("id") != "b"))


def test_a_pattern_of_files(tmp_path: Path) -> None:
    ROWS[:1].write_parquet(tmp_path / "day-1.parquet")
    ROWS[1:].write_parquet(tmp_path / "day-2.parquet")
    (tmp_path / "other.txt").touch()
    same(read(tmp_path, at=str(tmp_path / "day-*.parquet")))
    ROWS[:1].write_csv(tmp_path / "a.csv")
    ROWS[1:].write_csv(tmp_path / "b.csv")
    same(read(tmp_path, at=str(tmp_path / "[ab].csv")))


def test_a_database(tmp_path: Path) -> None:
    with sqlite3.connect(tmp_path / "bank.db") as database:
        database.execute("CREATE TABLE people (id TEXT, income REAL, late BOOLEAN)")
        database.executemany("INSERT INTO people VALUES (?, ?, ?)", ROWS.rows())
    url = f"sqlite:///{tmp_path / 'bank.db'}"
    found = read(tmp_path, at=url, query="SELECT * FROM people;")
    same(found, ROWS.with_columns(pl.col("late").cast(pl.Int64)))
    assert read(tmp_path, at=url, query="SELECT id FROM people WHERE income < 0").height == 0
    for query, word in (
        ("SELECT canary FROM people", "refused the query"),
        ("SELECT id, id FROM people", "two columns with one name"),
    ):
        with pytest.raises(ContractError, match=word) as caught:
            read(tmp_path, at=url, query=query)
        assert "canary" not in str(caught.value) and str(tmp_path) not in str(caught.value)


WRITES = {
    "rows": "WITH one AS (SELECT 1) INSERT INTO people SELECT 'z' FROM one RETURNING *",
    "a table": "DROP TABLE people",
    "a setting": "PRAGMA journal_mode = wal",
    "a file": "VACUUM INTO '{folder}/copied.db'",
    "another database": "ATTACH '{folder}/copied.db' AS copied",
}


@pytest.mark.parametrize("what", WRITES)
def test_the_query_of_a_table_cannot_write(what: str, tmp_path: Path) -> None:
    path = tmp_path / "bank.db"
    with sqlite3.connect(path) as bank:
        bank.execute("CREATE TABLE people (id TEXT)")
    before = path.read_bytes()
    query = WRITES[what].format(folder=tmp_path)
    with pytest.raises(ContractError, match="refused the query"):
        read(tmp_path, at=f"sqlite:///{path}", query=query)
    assert path.read_bytes() == before and not (tmp_path / "copied.db").exists()


def test_a_database_that_is_not_there_is_not_made(tmp_path: Path) -> None:
    path = tmp_path / "bank.db"
    with pytest.raises(ConfigError, match="does not exist"):
        read(tmp_path, at=f"sqlite:///{path}", query="SELECT 1 AS id")
    assert not path.exists()


def test_cells_of_several_types_in_a_database(tmp_path: Path) -> None:
    """SQLite's columns have no type of their own."""
    url = "sqlite://"
    texts = read(tmp_path, at=url, query="SELECT 'a' AS id, 7 AS x UNION ALL SELECT 'b', 'seven'")
    assert texts["x"].to_list() == ["7", "seven"]
    cells = "SELECT 'a' AS id, 1.5 AS x UNION ALL SELECT 'b', 'seven' UNION ALL SELECT 'c', x'ff'"
    source = Source.model_validate({"at": url, "query": cells})
    with pytest.raises(ContractError, match="column declared_x have no common type") as caught:
        columns = {"id": Expected("id", "text"), "x": Expected("declared_x", "number")}
        copy(source, "bank", tmp_path / "table.parquet", columns, "id")
    assert "column x" not in str(caught.value)
    # Nobody declared it: what is in it fails no run, as in a CSV file.
    copied = copy(source, "bank", tmp_path / "table.parquet", {"id": columns["id"]}, "id")
    assert pl.read_parquet(tmp_path / "table.parquet").to_dict(as_series=False) == {
        "id": ["a", "b", "c"]
    }
    assert copied.left_out.keys() == {"x"}


def test_long_codes_of_a_database_stay_apart(tmp_path: Path) -> None:
    """As floats two branches were one, and people had the other's category."""
    codes = [Decimal("12345678901234567890"), Decimal("12345678901234567891"), Decimal("NaN"), None]
    columns = {"code": Expected("code", "text")}
    frames = [
        database._frame(["code"], [(code,) for code in some], columns, {})
        for some in (codes, [Decimal("1.50"), 2])
    ]
    for number, frame in enumerate(frames):
        frame.with_columns(id=pl.lit(f"p{number}")).write_parquet(tmp_path / f"{number}.parquet")
    rows = read(tmp_path, at=str(tmp_path / "*.parquet"), text=("id", "code"))
    assert sorted(category_texts(rows["code"]).drop_nulls()) == [
        "1.5", "12345678901234567890", "12345678901234567891", "2"
    ]  # fmt: skip


@pytest.mark.parametrize("odd", ["Infinity", "-Infinity", "1" * 39, f"0.{'3' * 60}", "1e120"])
def test_a_code_that_no_decimal_holds_fails_no_other_cell(tmp_path: Path, odd: str) -> None:
    """In one block of an answer, and in the next: the cell may be of a person with a pin."""
    columns = {"code": Expected("code", "text"), "id": Expected("id", "text", is_id=True)}
    plain = [(Decimal("0.00"), Decimal(1)), (Decimal("-2.50"), Decimal(2)), (None, Decimal(3))]
    blocks = (plain, [(Decimal(odd), Decimal(4)), (Decimal("3E+2"), Decimal(5))])
    for number, rows in enumerate(blocks):
        frame = database._frame(["code", "id"], rows, columns, {})
        # Types of IDs are declared, and are checked later.
        assert frame["id"].dtype.is_decimal()
        frame = frame.with_columns(id=pl.format("p{}", pl.int_range(pl.len()) + 10 * number))
        frame.write_parquet(tmp_path / f"{number}.parquet")
    rows = read(tmp_path, at=str(tmp_path / "*.parquet"), text=("id", "code"))
    texts = sorted(category_texts(rows["code"]).drop_nulls())
    assert texts == sorted(["0", "-2.5", "300", f"{Decimal(odd):f}"])


def test_numbers_of_a_database_that_are_not_finite() -> None:
    rows = [(Decimal("1.5"),), (Decimal("NaN"),), (Decimal("Infinity"),), (None,)]
    values = database._frame(["x"], rows, {}, {})["x"]
    assert values.dtype == pl.Float64 and values.is_nan().sum() == 1
    assert values.is_infinite().sum() == 1 and values.null_count() == 1


@pytest.mark.parametrize(
    ("at", "error"),
    [
        ("postgresql://bank:hunter2@127.0.0.1:1/people", ConnectionError),
        ("nosuch://bank:hunter2@host/people", ConfigError),
        ("postgresql://bank:hunter2@host:notaport/people", ConfigError),
    ],
)
def test_no_message_shows_a_password(tmp_path: Path, at: str, error: type[Exception]) -> None:
    import traceback

    with pytest.raises(error) as caught:
        read(tmp_path, at=at, query="SELECT 1")
    told = "".join(traceback.format_exception(caught.value))
    assert "hunter2" not in str(caught.value)
    assert "hunter2@" not in told.replace(at, "")


@pytest.mark.parametrize(
    ("declared", "word"),
    [
        ({"at": "sqlite:///x.db"}, "query is required"),
        ({"at": "x.csv", "query": "SELECT 1"}, "only for a database"),
        ({"at": "x.csv", "decimal": ",", "thousands": ","}, "same sign"),
        ({"at": "x.csv", "dates": "dd.mm.yyyy"}, "must name day"),
        ({"at": "x.csv", "encoding": "klingon"}, "is not known"),
        ({"at": "x.csv", "separator": '"'}, "a quote or the end"),
        ({"at": "days/**/x.csv"}, "each level of folders"),
        ({"at": ""}, "at least 1 character"),
    ],
)
def test_a_faulty_declaration(declared: dict[str, Any], word: str) -> None:
    with pytest.raises(ValidationError, match=word):
        Source.model_validate(declared)


def test_a_source_that_cannot_be_read_leaves_nothing(tmp_path: Path) -> None:
    path = tmp_path / "bank.csv"
    for content in (b"", b"id,income\na,1,2,3\n", "id,ö\na,1\n".encode("cp1252")):
        path.write_bytes(content)
        with pytest.raises(OpBoostError, match="CSV table of bank"):
            read(tmp_path, at=str(path))
        assert list((tmp_path / "home").iterdir()) == []
    with pytest.raises(ContractError, match="no file matches the path"):
        read(tmp_path, at=str(tmp_path / "nothing-*.csv"))


def test_a_disk_without_room_is_told_before_anything_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "bank.csv"
    path.write_text("id,income\n" + "a,1\n" * 10_000)
    usage = namedtuple("usage", "total used free")
    monkeypatch.setattr(copies.shutil, "disk_usage", lambda _: usage(10, 5, 50_000))
    with pytest.raises(ContractError, match="0 MB are free") as caught:
        read(tmp_path, at=str(path))
    assert "keep_runs_days" in str(caught.value)


#: Files beyond some bytes are refused by the operating system, as they are by a full disk.
FULL = """
import resource, sys
from pathlib import Path
from opboost_ops.config.source import Source
from opboost_ops.errors import ContractError
from opboost_ops.tables.copies import copy
from opboost_ops.tables.columns import Expected
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[1]), int(sys.argv[1])))
try:
    copy(Source(at=sys.argv[2]), "bank", Path(sys.argv[3]) / "t.parquet",
         {"id": Expected("id", "text")}, "id")
except ContractError as error:
    print(error)
"""


@pytest.mark.parametrize("more", [-100_000, 100])
def test_a_disk_that_becomes_full_is_told_as_one_and_nothing_is_left(
    tmp_path: Path, more: int
) -> None:
    """While the text is laid down, and while Parquet is written, which is larger here."""
    path = tmp_path / "bank.csv"
    ids = (hashlib.sha256(bytes([i % 256, i // 256])).hexdigest()[:8] for i in range(30_000))
    path.write_text("\n".join(["id", *ids]))
    most = str(path.stat().st_size + more)
    command = [sys.executable, "-c", FULL, most, str(path), str(tmp_path / "home")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    assert "became full while its table was copied" in done.stdout, done
    assert list((tmp_path / "home").iterdir()) == []


def test_urls_are_not_mangled(workspace: Workspace) -> None:
    def tables(site: dict) -> None:
        site["tables"]["credit_scoring"] = {
            "train": "s3://bucket/people.parquet",
            "score": {"at": "sqlite:///new.db", "query": "SELECT 1"},
        }

    workspace.edit_yaml("bank/site.yaml", tables)
    found = workspace.site("bank").tables["credit_scoring"]
    assert isinstance(found.train, Source) and isinstance(found.score, Source)
    assert found.train.at == "s3://bucket/people.parquet"
    assert found.score.at == f"sqlite:///{workspace.folder}/bank/new.db"


@pytest.mark.slow
def test_a_run_on_csv_and_a_database(workspace: Workspace, tmp_path: Path) -> None:
    """The source is read once: what happens to it during the run changes nothing."""
    shop = pl.read_parquet(workspace.table_path("shop"))
    shop.write_csv(workspace.folder / "shop" / "people.csv", separator=";", decimal_comma=True)
    bank = pl.read_parquet(workspace.table_path("bank"))
    bank.write_database("people", f"sqlite:///{tmp_path / 'bank.db'}", engine="sqlalchemy")
    credit = pl.read_parquet(workspace.table_path("credit"))
    credit.write_csv(workspace.folder / "credit" / "people.csv.gz", compression="gzip")
    named = {
        "shop": {"at": "people.csv", "separator": ";", "decimal": ","},
        "bank": {"at": f"sqlite:///{tmp_path / 'bank.db'}", "query": "SELECT * FROM people"},
        "credit": "people.csv.gz",
    }
    for party, source in named.items():
        workspace.table_path(party).unlink()
        workspace.declare(f"{party}/site.yaml", tables={"credit_scoring": {"train": source}})
    check.command(workspace.file)
    assert not list(workspace.folder.rglob(".table-*"))
    assert changed("shop", "credit_scoring", "first")
    assert not changed("shop", "credit_scoring", "second")
    workspace.until("preprocess")
    (workspace.folder / "shop" / "people.csv").write_text(CANARY_TEXT)
    (tmp_path / "bank.db").unlink()
    for step in list(workspace.steps()):
        if step.stage not in ("check_table", "check_drift", "digest_ids", "align"):
            workspace.step(step.party, step.stage)
    ids = pl.read_ipc((workspace.home("shop") / "ids.arrow").read_bytes())
    assert ids.get_column("id").is_sorted()
    # Of the source itself nothing is left: everybody was pinned before.
    assert not (workspace.home("shop") / "table.parquet").exists()
    assert not (workspace.home("shop") / "unpinned.arrow").exists()
    # The same model as on the Parquet files.
    other = Workspace(workspace.folder, "0" * 15 + "1")
    model = (workspace.home("credit") / "model.txt").read_text()
    assert model == (other.home("credit") / "model.txt").read_text()


@pytest.mark.parametrize("kind", ["csv", "database"])
def test_a_forgotten_person_leaves_the_copy_and_does_not_come_back(
    workspace: Workspace, tmp_path: Path, kind: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Neither from a CSV file nor from a database, which go on having the row."""
    table = workspace.table_path("bank")
    bank = pl.read_parquet(table)
    person, other = bank.get_column("id").sort()[:2].to_list()
    source: Any = "people.csv"
    if kind == "csv":
        bank.write_csv(workspace.folder / "bank" / "people.csv")
    else:
        source = {"at": f"sqlite:///{tmp_path / 'bank.db'}", "query": "SELECT * FROM people"}
        bank.write_database("people", source["at"], engine="sqlalchemy")
    table.unlink()
    workspace.declare("bank/site.yaml", tables={"credit_scoring": {"train": source}})
    workspace.open()
    workspace.step("bank", "check_table")
    copied = workspace.home("bank") / "ids.arrow"
    before = pl.read_ipc(copied.read_bytes()).get_column("id")
    assert person in before

    ledger.forget_command(workspace.folder / "bank", str(person))
    said = capsys.readouterr().out
    assert "Removed from the copies of source tables that runs of credit_scoring made" in said
    assert str(person) not in said
    after = pl.read_ipc(copied.read_bytes()).get_column("id")
    # The run goes on with somebody invented in their place.
    assert after.len() == before.len()
    assert set(before) - set(after) == {person}
    assert stat.S_IMODE(copied.stat().st_mode) == 0o600
    for stage in ("check_drift", "digest_ids", "preprocess", "desensitize"):
        workspace.step("bank", stage)

    other_run = Workspace(workspace.folder, "0" * 15 + "4")
    other_run.open()
    other_run.step("bank", "check_table")
    again = pl.read_ipc((other_run.home("bank") / "ids.arrow").read_bytes()).get_column("id")
    assert again.equals(before.filter(before != person))
    assert other in again
    # An ID that nobody has removes nothing.
    kept = copied.read_bytes()
    for nobody in ("nobody-at-all", "9" * 20, "--5"):
        ledger.forget_command(workspace.folder / "bank", nobody)
        said = capsys.readouterr().out
        assert "listed the ID as forgotten" in said and "Removed" not in said
    assert copied.read_bytes() == kept
