"""Commands that cannot write end with a message, without a traceback or a person's hash."""

import sqlite3
from pathlib import Path

from tests.commands import printed
from tests.federation import Workspace


def test_a_folder_that_does_not_exist(workspace: Workspace, tmp_path: Path) -> None:
    out = tmp_path / "none" / "ledger.csv"
    told = printed("ledger", "export", workspace.folder / "bank", "--out", out, fails=True)
    assert str(out) in told and "No such file" in told


def test_a_database_that_takes_no_row(workspace: Workspace) -> None:
    """SQLite refuses it by the class of error that a full or read-only disk has."""
    with sqlite3.connect(workspace.folder / "bank" / "ledger.sqlite") as connection:
        connection.execute("DROP TABLE forgotten")
        connection.execute("CREATE VIEW forgotten AS SELECT '' AS person WHERE 0")
    connection.close()
    told = printed("forget", workspace.folder / "bank", "p00001", fails=True)
    assert "The database failed" in told
    assert "INSERT" not in told and "parameters" not in told
