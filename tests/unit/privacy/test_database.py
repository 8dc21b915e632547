"""What is told of a database that cannot be opened."""

from pathlib import Path
from typing import Any

import pytest

from opboost_ops.errors import ConfigError, ContractError
from opboost_ops.privacy.ledger import database
from opboost_ops.privacy.ledger.database import Database
from opboost_ops.privacy.ledger.tables import VERSION, set_version


def test_a_full_disk_is_told_as_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """SQLite's own refusal: it may use no more pages than the file has."""
    connected = database._disable_autobegin

    def full(connection: Any, record: Any) -> None:
        connected(connection, record)
        connection.execute("PRAGMA max_page_count = 1")

    database._sqlite.cache_clear()
    monkeypatch.setattr(database, "_disable_autobegin", full)
    with pytest.raises(ContractError, match="is full") as caught:
        Database(f"sqlite:///{tmp_path / 'ledger.sqlite'}")
    assert "Free space" in caught.value.remedy
    database._sqlite.cache_clear()
    monkeypatch.undo()
    Database(f"sqlite:///{tmp_path / 'ledger.sqlite'}").close()


def test_another_fault_is_not_told_as_a_full_disk(tmp_path: Path) -> None:
    (tmp_path / "ledger.sqlite").write_bytes(b"this is no database " * 100)
    with pytest.raises(ConfigError, match="cannot be opened"):
        Database(f"sqlite:///{tmp_path / 'ledger.sqlite'}")


@pytest.mark.parametrize("version", [VERSION + 1, 3])
def test_tables_of_another_version_are_refused_and_stay_as_they_are(
    tmp_path: Path, version: int
) -> None:
    file = tmp_path / "ledger.sqlite"
    opened = Database(f"sqlite:///{file}")
    with opened.writing() as connection:
        connection.exec_driver_sql("DELETE FROM schema")
        set_version(connection, version)
    opened.close()
    before = file.read_bytes()
    with pytest.raises(ConfigError, match="supports only version 1") as caught:
        Database(f"sqlite:///{file}")
    assert f"version {version}," in caught.value.problem
    assert file.read_bytes() == before
