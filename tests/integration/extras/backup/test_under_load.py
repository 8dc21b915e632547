"""Backups that are taken while runs go on: whatever was charged by then is in them, whole."""

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import polars as pl
import pytest
import yaml

from opboost_ops.config.loading import load_site
from opboost_ops.exchange.party_state import open_state
from opboost_ops.extras.backup.restoring import restore
from opboost_ops.extras.backup.writing import back_up
from opboost_ops.pipeline.party.rollback import check
from tests.federation import Workspace
from tests.integration.extras.backup.conftest import Officer
from tests.party_state import pin_files


def started(module: str, *words: object, **environment: str) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, "-m", module, *map(str, words)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=environment or None,
    )


@pytest.mark.deployment
def test_eight_runs_and_an_empty_machine(
    workspace: Workspace, tmp_path: Path, officer: Officer
) -> None:
    bank = workspace.folder / "bank"
    declared = yaml.safe_load((bank / "site.yaml").read_text())
    table = pl.read_parquet(bank / "tables" / "train.parquet")
    runs = []
    for number in range(8):
        # Each has another table, so that all draw and charge at the same time.
        own, path = bank / "tables" / f"{number}.parquet", bank / f"site-{number}.yaml"
        table.with_columns(pl.col("income") * (1 + number / 8)).write_parquet(own)
        declared["tables"]["credit_scoring"]["train"] = str(own)
        path.write_text(yaml.safe_dump(declared))
        run = f"{number + 16:016x}"
        sites = {**os.environ, **workspace.environment(), "OPBOOST_SITE_BANK": str(path)}
        program = "tests.integration.extras.backup.running"
        runs.append(started(program, workspace.folder, run, **sites))
    backups: list[tuple[Path, set[str]]] = []
    site = load_site(bank / "site.yaml")
    while any(run.poll() is None for run in runs):
        with open_state(site) as state:
            charged = {line.artifact for line in state.ledger.entries()}
        if not backups or charged != backups[-1][1]:
            backups.append((tmp_path / f"backup-{len(backups)}", charged))
            back_up(bank, backups[-1][0], officer.public)
        time.sleep(0.5)
    assert [run.wait() for run in runs] == [0] * 8
    assert len(backups) > 4
    back_up(bank, tmp_path / "last", officer.public)
    with open_state(site) as state:
        everything = {line.artifact for line in state.ledger.entries()}
        states = pin_files(state)
    backups.append((tmp_path / "last", everything))
    shutil.move(bank, tmp_path / "gone")
    for number, (backup, charged) in enumerate(backups):
        shutil.rmtree(bank, ignore_errors=True)
        restore(bank, backup, officer.file)
        with open_state(site) as state:
            lines = state.ledger.entries()
            assert charged <= {line.artifact for line in lines}
            # Neither behind its entries nor ahead of them, although others were pinning.
            assert state.releases.lost() == []
            opened = {line.artifact for line in lines if line.kind == "release"}
            assert {one.id for one in state.releases.all()} == opened
        gaps = check(site)
        assert not [gap for gap in gaps if gap.lacks in ("pins", "audit")], number
    # The last one was taken when all had ended: nothing at all is missing.
    assert gaps == []
    with open_state(site) as state:
        assert {line.artifact for line in state.ledger.entries()} == everything
        assert pin_files(state) == states
