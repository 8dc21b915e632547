"""The books on PostgreSQL: a race for the last of a budget, and a whole run."""

from pathlib import Path

import pytest
import yaml

from opboost_ops.privacy.database import Database
from opboost_ops.privacy.ledger import Ledger
from tests.books import books_of
from tests.federation import Workspace
from tests.unit.privacy.test_race import FITS, PROCESSES, race

pytestmark = pytest.mark.slow


def test_sixteen_racing_processes_never_overspend(postgres: str, tmp_path: Path) -> None:
    told = race(postgres, tmp_path / "cells")
    assert told.count("refused") == PROCESSES - FITS
    assert len(Ledger(Database(postgres)).releases()) == FITS


def test_racing_processes_never_pass_the_cap_on_changes(postgres: str, tmp_path: Path) -> None:
    assert len(set(race(postgres, tmp_path / "cells", PROCESSES, 2))) == 2


def test_a_whole_run_with_its_books_there(
    workspace: Workspace, postgres: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BANK_LEDGER", postgres)
    path = workspace.folder / "bank" / "site.yaml"
    site = yaml.safe_load(path.read_text())
    path.write_text(yaml.safe_dump({**site, "ledger": "env:BANK_LEDGER"}))
    workspace.all()
    with books_of(workspace, "bank") as books:
        kinds = {r.kind for r in books.ledger.releases() if r.run == workspace.run}
        assert {"digests", "ranks", "holdout", "split_values"} <= kinds
        assert books.ledger.uncommitted() == []
        entries, _ = books.audit.verify()
        assert entries >= 6
