"""Backups of a state on PostgreSQL, put back there and into a file."""

import shutil
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
import yaml

from opboost_ops.extras.backup.restoring import restore
from opboost_ops.extras.backup.writing import back_up
from tests.commands import printed
from tests.federation import SECOND_RUN, Workspace
from tests.integration.extras.backup.conftest import Officer
from tests.party_state import pin_files, state_of

pytestmark = pytest.mark.slow


def told(workspace: Workspace) -> Any:
    with state_of(workspace, "bank") as state:
        states = pin_files(state)
        return state.ledger.dated(), state.audit.verify(), states


def with_ledger(workspace: Workspace, url: str) -> None:
    path = workspace.folder / "bank" / "site.yaml"
    path.write_text(yaml.safe_dump({**yaml.safe_load(path.read_text()), "ledger": url}))


def test_from_a_file_to_postgresql_and_on_and_back(
    workspace: Workspace, postgres: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bank, officer = workspace.folder / "bank", Officer(tmp_path / "officer")
    monkeypatch.setenv("BANK_LEDGER", postgres)
    before = told(workspace)
    back_up(bank, tmp_path / "of-a-file", officer.public)
    with_ledger(workspace, "env:BANK_LEDGER")
    restore(bank, tmp_path / "of-a-file", officer.file, over=True)
    assert told(workspace) == before
    # Its own numbering goes on after the rows that came with their numbers.
    workspace.all()
    after = told(workspace)
    assert after[0][: len(before[0])] == before[0]
    assert {line.run for _, line in after[0][len(before[0]) :]} == {SECOND_RUN}
    back_up(bank, tmp_path / "of-postgresql", officer.public)
    # Over itself: what was there lies in tables beside.
    done = restore(bank, tmp_path / "of-a-file", officer.file, over=True)
    assert told(workspace)[:2] == before[:2]
    assert {line.run for line in done.beyond} == {SECOND_RUN}
    engine = sa.create_engine(postgres)
    names = [n for n in sa.inspect(engine).get_table_names() if n.startswith("entries_before_")]
    with engine.connect() as connection:
        kept = max(
            connection.execute(sa.text(f'SELECT count(*) FROM "{name}"')).scalar_one()
            for name in names
        )
    assert kept == len(after[0])
    # The command that forgets a person names them.
    assert all(name in printed("forget", bank, "nobody") for name in names)
    engine.dispose()
    # And into a file again.
    shutil.rmtree(bank / "pins")
    (bank / "ledger.sqlite").unlink()
    with_ledger(workspace, "sqlite:///ledger.sqlite")
    restore(bank, tmp_path / "of-postgresql", officer.file, over=True)
    assert told(workspace) == after
