"""Tables from, and scores to, a real PostgreSQL."""

from pathlib import Path

import polars as pl
import pytest
import sqlalchemy as sa

from opboost_ops.cli import check
from opboost_ops.config.source import Source
from opboost_ops.tables.columns import Expected
from opboost_ops.tables.copies import copy
from opboost_ops.tables.raw_values import category_texts
from tests.federation import Workspace

pytestmark = pytest.mark.slow


def test_a_run_from_postgres_and_scores_into_it(
    workspace: Workspace, postgres: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    plain = postgres.replace("+psycopg", "")
    monkeypatch.setenv("BANK_TABLES", plain)
    engine = sa.create_engine(postgres)
    for name, step in (("people", workspace), ("new_people", workspace.scoring())):
        frame = pl.read_parquet(step.table_path("bank"))
        frame.write_database(name, engine, engine="sqlalchemy")
        step.table_path("bank").unlink()
    tables = {
        "train": {"at": "env:BANK_TABLES", "query": "SELECT * FROM people"},
        "score": {"at": plain, "query": "SELECT * FROM new_people"},
    }
    workspace.edit_yaml("bank/site.yaml", lambda s: s.update(tables={"credit_scoring": tables}))
    workspace.edit_yaml(
        "credit/site.yaml",
        lambda s: s["tables"]["credit_scoring"].update(
            scores_to={"at": "env:BANK_TABLES", "table": "public.scores"}
        ),
    )
    check.command(workspace.file)
    workspace.all()
    scoring = workspace.scoring()
    rows = scoring.all()["credit.write_scores"]["rows"]
    scoring.step("credit", "write_scores")
    with engine.connect() as connection:
        found = connection.execute(
            sa.text(
                "SELECT count(*), count(DISTINCT id), count(DISTINCT model_version) FROM scores"
            )
        ).one()
    engine.dispose()
    assert tuple(found) == (rows, rows, 1)


def test_a_category_that_no_decimal_holds_fails_no_other_cell(
    postgres: str, tmp_path: Path
) -> None:
    odd = ("'Infinity'", "'-Infinity'", "'NaN'", "1e40", "0." + "3" * 60, "2.50", "NULL")
    cells = ", ".join(f"('p{number}', {cell}::numeric)" for number, cell in enumerate(odd))
    query = f"SELECT * FROM (VALUES {cells}) AS people (id, code)"
    columns = {"id": Expected("id", "text", is_id=True), "code": Expected("code", "text")}
    target = tmp_path / "table.parquet"
    copy(Source(at=postgres, query=query), "bank", target, columns, "id")
    texts = category_texts(pl.read_parquet(target).sort("id")["code"]).to_list()
    assert texts == ["Infinity", "-Infinity", None, f"1{'0' * 40}", odd[4], "2.5", None]
