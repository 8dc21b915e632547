"""What is told of a database that cannot be opened."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from opboost_ops.errors import ConfigError, ContractError
from opboost_ops.privacy.ledger import database
from opboost_ops.privacy.ledger.database import Database
from opboost_ops.privacy.ledger.tables import VERSION, set_version
from opboost_ops.privacy.people import Forgotten
from tests.unit.privacy.releasing import Door, people


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


def test_an_error_quotes_no_value_of_a_row(tmp_path: Path) -> None:
    opened = Database(f"sqlite:///{tmp_path / 'ledger.sqlite'}")
    insert = sa.text("INSERT INTO none VALUES (:person)").bindparams(person="48151623")
    with pytest.raises(sa.exc.DBAPIError) as caught:
        opened.execute(insert)
    opened.close()
    assert "48151623" not in str(caught.value)


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


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[Database]:
    made = Database(f"sqlite:///{tmp_path / 'ledger.sqlite'}")
    yield made
    made.close()


def test_a_database_belongs_to_one_party_and_one_secret(opened: Database) -> None:
    identity = opened.identity("bank", "")
    assert opened.identity("bank", "a" * 16) == identity
    for party, secret in (("shop", "a" * 16), ("bank", "b" * 16)):
        with pytest.raises(ConfigError):
            opened.identity(party, secret)
    assert opened.identity("bank", "b" * 16, fresh=True) == identity
    assert opened.identity("bank", "b" * 16) == identity


def test_what_is_cached_is_read_again_after_a_write_in_the_same_transaction(
    opened: Database,
) -> None:
    forgotten = Forgotten(opened, lambda: bytes(32))
    assert not len(forgotten.read())
    with opened.writing():
        forgotten.add(["a" * 32])
        assert forgotten.read().people == {"a" * 32}
    assert forgotten.read().people == {"a" * 32}


def test_a_database_is_empty_until_an_entry_or_event(tmp_path: Path) -> None:
    door = Door(tmp_path / "state")
    door.database.identity("bank", "a" * 16)
    assert door.database.is_empty()
    door.night(1, people(3))
    assert not door.database.is_empty()


def test_a_file_that_was_replaced_is_opened_again(opened: Database) -> None:
    assert opened.file is not None
    assert opened.is_current()
    other = opened.file.with_name("other.sqlite")
    other.write_bytes(opened.file.read_bytes())
    other.replace(opened.file)
    assert not opened.is_current()


def test_what_is_read_within_a_reading_disturbs_none(opened: Database) -> None:
    identity = opened.identity("bank", "a" * 16)
    query = "SELECT id FROM state"
    with opened.reading() as first:
        rows = first.exec_driver_sql(query)
        with opened.reading() as second:
            assert second.exec_driver_sql(query).scalar() == identity
        assert rows.scalar() == identity
