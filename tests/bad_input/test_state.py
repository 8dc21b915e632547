"""A party's state that cannot be right: one clear error, nothing charged, nothing released."""

import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from opboost_ops.errors import ConfigError, OpBoostError, PolicyError
from opboost_ops.privacy.ledger.tables import VERSION
from tests.bad_input.faults import message_is_right
from tests.federation import Workspace

PARTY = "bank"


def change(database: Path, statement: str) -> None:
    with closing(sqlite3.connect(database)) as connection:
        assert connection.execute(statement).rowcount
        connection.commit()


def entries(database: Path) -> list[tuple[object, ...]]:
    with closing(sqlite3.connect(database)) as connection:
        return connection.execute("SELECT artifact, feature FROM entries ORDER BY id").fetchall()


def newer(bank: Path) -> None:
    change(bank / "ledger.sqlite", f"UPDATE schema SET version = {VERSION + 1}")


def another_generation(bank: Path) -> None:
    """Of one release another one's pins, under its name."""
    first, second = sorted((bank / "pins").glob("*.pins"))[:2]
    shutil.copy(second, first)


def broken_chain(bank: Path) -> None:
    change(bank / "ledger.sqlite", "UPDATE audit SET entry = entry || ' ' WHERE number = 3")


def second_database(bank: Path) -> None:
    change(bank / "ledger.sqlite", "UPDATE state SET id = 'another'")


def of_another_party(bank: Path) -> None:
    shutil.copy(bank.parent / "shop" / "ledger.sqlite", bank / "ledger.sqlite")


def no_database(bank: Path) -> None:
    (bank / "ledger.sqlite").write_bytes(b"no database" * 1000)


FAULTS: dict[str, tuple[Callable[[Path], None], str, type[OpBoostError], str]] = {
    "newer database": (newer, "check_table", ConfigError, "this software supports only version 1"),
    "pins of another release": (
        another_generation, "check_table", PolicyError, "refused run",
    ),
    "chain that does not verify": (broken_chain, "check_table", PolicyError, "refused run"),
    "two databases": (second_database, "check_table", ConfigError, "has two databases"),
    "database of another party": (of_another_party, "check_table", ConfigError, "belongs to shop"),
    "no database": (no_database, "check_table", ConfigError, "cannot be opened"),
}  # fmt: skip

#: What the party's own people read of a refusal.
REASONS = {
    "pins of another release": "is not the one that the ledger points to",
    "chain that does not verify": "audit log",
}


@pytest.mark.parametrize("fault", FAULTS)
def test_nothing_is_charged_and_nothing_released(workspace: Workspace, fault: str) -> None:
    spoil, stage, kind, words = FAULTS[fault]
    bank = workspace.folder / PARTY
    workspace.edit_table(PARTY, lambda t: t.with_columns(t["income"].reverse()))
    spoil(bank)
    before = entries(bank / "ledger.sqlite") if fault != "no database" else []
    step, error = workspace.first_failure()
    assert step == f"{PARTY}.{stage}"
    assert type(error) is kind, error
    message_is_right(error, words)
    assert f"ranks/{PARTY}" not in workspace.published()
    if fault != "no database":
        new = [line for line in entries(bank / "ledger.sqlite") if line not in before]
        assert not [line for line in new if line[1]]
    if kind is PolicyError:
        assert REASONS[fault] in workspace.reason(PARTY)
