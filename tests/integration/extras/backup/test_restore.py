"""A backup that was put back is what there was; what is there is never lost by it."""

import datetime
import multiprocessing
import os
import shutil
import signal
import sqlite3
import subprocess
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import polars as pl
import pytest
import yaml

from opboost_ops.config.loading import load_site
from opboost_ops.errors import ConfigError, ContractError, PolicyError
from opboost_ops.exchange.audit import Audit
from opboost_ops.exchange.party_state import PartyState, agreements_of
from opboost_ops.extras.backup import restoring
from opboost_ops.extras.backup.restoring import restore
from opboost_ops.extras.backup.writing import _copy_small_files, back_up
from opboost_ops.learning.registry.registry import Registry
from opboost_ops.pipeline.party.agreement import withdraw
from opboost_ops.privacy.ledger.database import Database
from tests.federation import SECOND_RUN, Workspace
from tests.integration.cli.conftest import Opboost
from tests.integration.extras.backup.conftest import Officer, untouched
from tests.party_state import pin_files, state_of


def told(workspace: Workspace, party: str = "bank") -> Any:
    """All that the state says."""
    with state_of(workspace, party) as state:
        lines = state.ledger.dated()
        states = pin_files(state)
        return lines, state.audit.verify(), states, state.ledger.uncommitted()


def test_an_empty_place_has_the_whole_state_again(
    emptied: Workspace, backup: Path, officer: Officer
) -> None:
    done = restore(emptied.folder / "bank", backup, officer.file)
    restored = told(emptied)
    original = told(Workspace(backup.parent / "federation"))
    assert restored == original
    assert (done.aside, done.kept, done.beyond) == ((), (), ())
    assert done.contents.head == restored[1][1]


def test_a_run_after_it_releases_nothing_again(
    emptied: Workspace, backup: Path, officer: Officer
) -> None:
    restore(emptied.folder / "bank", backup, officer.file)
    lines = told(emptied)[0]
    # Keys of the month are in no backup: the label holder asks about everybody again.
    with pytest.raises(ContractError, match="another key of the month"):
        emptied.all()
    Workspace(emptied.folder, "0" * 15 + "3").all()
    after = told(emptied)[0]
    # Everybody is pinned as before the loss: no release opens and nothing is spent.
    assert after[: len(lines)] == lines
    assert not [line for _, line in after[len(lines) :] if line.kind == "release"]


def test_a_run_under_way_sends_nothing_that_a_later_run_has_sent(
    workspace: Workspace, tmp_path: Path, officer: Officer
) -> None:
    """Else its new people would be drawn a second time, under the same charge."""
    for party in workspace.declared.parties:
        workspace.let_join(party)
    under_way = Workspace(workspace.folder, "0" * 15 + "3")
    under_way.until("desensitize", "bank")
    back_up(workspace.folder / "bank", tmp_path / "b", officer.public)
    workspace.all()
    restore(workspace.folder / "bank", tmp_path / "b", officer.file, over=True)
    with pytest.raises(PolicyError, match="bank refused run"):
        under_way.step("bank", "desensitize")


def test_what_was_there_is_missed_though_the_store_has_lost_it(
    workspace: Workspace, tmp_path: Path, backup: Path, officer: Officer, opboost: Opboost
) -> None:
    """Else it would be drawn again, uncharged, if the label holder removes the last run."""
    bank = workspace.folder / "bank"
    workspace.all()
    shutil.rmtree(workspace.folder / "exchange" / "credit_scoring" / workspace.run)
    for _ in range(2):
        done = opboost("restore", bank, backup, "--key", officer.file, "--yes")
        assert "lacks checkpoint 2 of credit_scoring towards credit" in done.out
    Workspace(workspace.folder, "0" * 15 + "3").open()
    opboost("ledger", "recover", bank, "--yes")
    assert "has lost nothing" in opboost("ledger", "recover", bank, "--yes").out
    Workspace(workspace.folder, "0" * 15 + "4").all()


@pytest.mark.slow
def test_models_keep_their_order_and_their_champion(
    workspace: Workspace, tmp_path: Path, officer: Officer
) -> None:
    workspace.all()
    folder = workspace.folder / "credit"
    registry = Registry(load_site(folder / "site.yaml").models, "credit_scoring")
    before = registry.versions(), registry.champion(), registry.history()
    files = registry.files(SECOND_RUN)
    assert len(before[0]) == 2
    back_up(folder, tmp_path / "b", officer.public)
    shutil.rmtree(folder / "models")
    restore(folder, tmp_path / "b", officer.file, over=True)
    assert (registry.versions(), registry.champion(), registry.history()) == before
    assert registry.files(SECOND_RUN) == files


def test_without_its_key_a_backup_gives_no_value(
    workspace: Workspace, backup: Path, officer: Officer, tmp_path: Path
) -> None:
    """Its content shows only to the key: values of persons, keys, even the names of entries."""
    raw, entries = backup.read_bytes(), officer.entries(backup)
    assert raw.startswith(b"age-encryption.org/v1\n")
    assert workspace.site("bank").secret.read_bytes() == entries["keys/secret"]
    assert len(entries[min(name for name in entries if name.endswith(".pins"))]) > 1000
    inside = [*entries.values(), *(name.encode() for name in entries)]
    # Any 24 bytes of the content, wherever they begin, would be recognised.
    pieces = {part[at : at + 24] for part in inside for at in range(0, len(part) - 24, 97)}
    assert len(pieces) > 500
    assert not [piece for piece in pieces if piece in raw]
    for other in (Officer(tmp_path / "other"), Officer(tmp_path / "third")):
        with pytest.raises(ConfigError, match="does not open"):
            restore(workspace.folder / "bank", backup, other.file, over=True)
    assert backup.stat().st_mode & 0o077 == 0


@pytest.mark.slow
def test_age_and_tar_open_it(backup: Path, officer: Officer, tmp_path: Path) -> None:
    """A party needs none of this software to read its backup."""
    out = tmp_path / "out"
    out.mkdir()
    age = ["age", "--decrypt", "--identity", str(officer.file), str(backup)]
    plain = subprocess.run(age, check=True, capture_output=True).stdout
    subprocess.run(["tar", "-x", "-C", str(out)], check=True, input=plain)
    files = {p.relative_to(out).as_posix(): p.read_bytes() for p in out.rglob("*") if p.is_file()}
    assert files == officer.entries(backup)
    assert {"site.yaml", "policy.yaml", "keys/signing_key", "backup.json"} <= files.keys()


def test_a_newer_state_is_set_aside_only_if_that_is_said(
    workspace: Workspace, backup: Path, opboost: Opboost, officer: Officer
) -> None:
    workspace.edit_table("bank", lambda t: t.with_columns(pl.col("income") * 1.7))
    workspace.all()
    bank = workspace.folder / "bank"
    newer = told(workspace)
    with untouched(bank):
        error = opboost("restore", bank, backup, "--key", officer.file).error
    assert "bank already has a state" in error
    assert SECOND_RUN in error
    assert "Nothing was changed" in error
    done = opboost("restore", bank, backup, "--yes", "--key", officer.file)
    assert "opboost ledger recover" in done.error
    assert f"entries of what was there are not in the backup: runs {SECOND_RUN}." in done.out
    assert SECOND_RUN in done.out.partition("ledger lacks")[2]
    assert len(told(workspace)[0]) < len(newer[0])
    kept = sorted(path for path in bank.iterdir() if ".before-restore-" in path.name)
    assert [path.name.partition(".before-")[0] for path in kept] == ["ledger.sqlite", "pins"]
    with sqlite3.connect(kept[0]) as database:
        (lines,) = database.execute("SELECT count(*) FROM entries").fetchone()
    assert lines == len(newer[0])
    assert {name: (kept[1] / name).read_bytes() for name in newer[2]} == newer[2]


def test_what_restores_of_one_second_set_aside_all_stays(
    workspace: Workspace, backup: Path, officer: Officer, monkeypatch: pytest.MonkeyPatch
) -> None:
    bank, moment = workspace.folder / "bank", datetime.datetime.now(datetime.UTC)
    clock = SimpleNamespace(now=lambda _: moment)
    monkeypatch.setattr(restoring, "datetime", SimpleNamespace(datetime=clock, UTC=datetime.UTC))
    for number in (1, 2, 3):
        (bank / "pins" / "note").write_text(f"there before restore {number}")
        restore(bank, backup, officer.file, over=True)
    notes = sorted(path.read_text() for path in bank.glob("pins.before-restore-*/note"))
    assert notes == [f"there before restore {number}" for number in (1, 2, 3)]
    assert len([*bank.glob("ledger.sqlite.before-restore-*")]) == 3


def files(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}


def test_a_password_in_site_yaml_is_not_taken_along(
    workspace: Workspace, tmp_path: Path, opboost: Opboost
) -> None:
    path = workspace.folder / "bank" / "site.yaml"
    site = yaml.safe_load(path.read_text())
    ledger = f"sqlite://user:hunter2@/{workspace.folder}/bank/ledger.sqlite"
    path.write_text(yaml.safe_dump({**site, "ledger": ledger}))
    left_out = _copy_small_files(path.parent, workspace.site("bank"), tmp_path)
    assert not (tmp_path / "site.yaml").exists()
    assert (tmp_path / "policy.yaml").exists()
    assert "hunter2" not in str(left_out)
    assert "env:NAME" in str(left_out)


def people_of(state: PartyState) -> dict[str, int]:
    """How many people each release has pinned."""
    return {one.id: one.pins.rows for one in state.releases.all() if one.pins is not None}


def test_who_was_forgotten_since_stays_forgotten(
    workspace: Workspace, tmp_path: Path, opboost: Opboost, officer: Officer
) -> None:
    bank = workspace.folder / "bank"
    person = str(pl.read_parquet(bank / "tables" / "train.parquet")["id"][0])
    back_up(bank, tmp_path / "b", officer.public)
    opboost("forget", bank, person)
    with state_of(workspace, "bank") as state:
        listed, people = state.forgotten.read(), people_of(state)
    restore(bank, tmp_path / "b", officer.file, over=True)
    with state_of(workspace, "bank") as state:
        assert state.forgotten.read() == listed
        assert people_of(state) == people
    # What was set aside holds people, too.
    (aside,) = bank.glob("pins.before-restore-*")
    assert aside.name in opboost("forget", bank, person).out


def test_who_is_forgotten_while_it_begins_stays_forgotten(
    workspace: Workspace, backup: Path, officer: Officer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Others write until it holds the database: it went by what it had looked at before."""
    bank = workspace.folder / "bank"
    waits, writing = threading.Event(), Database.writing

    def about_to_write(database: Database) -> Any:
        waits.set()
        return writing(database)

    with ThreadPoolExecutor(1) as pool, state_of(workspace, "bank") as state, state.transaction():
        monkeypatch.setattr(Database, "writing", about_to_write)
        restoring_it = pool.submit(restore, bank, backup, officer.file, True)
        # It has looked at the state, and waits for this transaction.
        assert waits.wait(60)
        monkeypatch.undo()
        gone = state.forgotten.hashed(
            str(pl.read_parquet(bank / "tables" / "train.parquet")["id"][0])
        )
        state.forgotten.add([gone])
        state.releases.forget([gone])
    restoring_it.result()
    with state_of(workspace, "bank") as state:
        assert gone in state.forgotten.read().people


@pytest.mark.parametrize("killed", [back_up, restore])
def test_one_that_was_killed_leaves_no_key_in_the_open(
    workspace: Workspace, backup: Path, officer: Officer, tmp_path: Path, killed: Any
) -> None:
    """Its folder, with keys, secret and pins, stayed beside `site.yaml` for ever."""
    bank = workspace.folder / "bank"

    def run(function: Any, *end: Any) -> None:
        if function is back_up:
            back_up(bank, tmp_path / "another.backup", officer.public, *end)
        else:
            restore(bank, backup, officer.file, True, *end)

    def end(done: int, whole: int) -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    process = multiprocessing.get_context("fork").Process(target=run, args=(killed, end))
    process.start()
    process.join(60)
    assert process.exitcode == -signal.SIGKILL
    stages = [f".{name}-*" for name in ("backup", "restore")]
    (left,) = (folder for stage in stages for folder in bank.glob(stage))
    assert list(left.iterdir())
    run(killed)
    assert not [folder for stage in stages for folder in bank.glob(stage)]


def test_what_was_withdrawn_since_stays_withdrawn(
    workspace: Workspace, tmp_path: Path, officer: Officer
) -> None:
    bank = workspace.folder / "bank"
    site = load_site(bank / "site.yaml")
    back_up(bank, tmp_path / "b", officer.public)
    withdraw(site, 1)
    restore(bank, tmp_path / "b", officer.file, over=True)
    assert agreements_of(site).newest("credit_scoring") is None


def test_a_damaged_database_is_set_aside(
    workspace: Workspace, backup: Path, officer: Officer
) -> None:
    bank = workspace.folder / "bank"
    before = told(workspace)
    (bank / "ledger.sqlite").write_bytes(b"no database at all" * 100)
    with untouched(bank), pytest.raises(ConfigError, match="cannot be read"):
        restore(bank, backup, officer.file)
    restore(bank, backup, officer.file, over=True)
    assert told(workspace) == before
    (kept,) = bank.glob("ledger.sqlite.before-restore-*")
    assert kept.read_bytes().startswith(b"no database")


@pytest.mark.parametrize("point", ["copy_file", "swap", "replace_rows", "verify"])
def test_a_disk_that_fills_up_in_the_middle_changes_nothing(
    workspace: Workspace,
    backup: Path,
    monkeypatch: pytest.MonkeyPatch,
    point: str,
    officer: Officer,
) -> None:
    bank = workspace.folder / "bank"

    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    if point == "verify":
        monkeypatch.setattr(Audit, "verify", full)
    elif point == "swap":
        monkeypatch.setattr(restoring.Places, "swap", full)
    else:
        monkeypatch.setattr(restoring, point, full)
    with untouched(bank), pytest.raises(ContractError, match="No space left"):
        restore(bank, backup, officer.file, over=True)


def test_a_backup_makes_no_folder_where_a_disk_is_not_mounted(
    workspace: Workspace, tmp_path: Path, officer: Officer
) -> None:
    target = tmp_path / "disk" / "nightly" / "bank.backup"
    with pytest.raises(ConfigError, match="does not exist; nothing was written"):
        back_up(workspace.folder / "bank", target, officer.public)
    assert not (tmp_path / "disk").exists()


def test_a_backup_is_never_written_over(
    workspace: Workspace, backup: Path, officer: Officer
) -> None:
    before = backup.read_bytes()
    with pytest.raises(ConfigError, match="exists already"):
        back_up(workspace.folder / "bank", backup, officer.public)
    assert backup.read_bytes() == before
    assert not list(backup.parent.glob(".*"))
    assert not [p for p in (workspace.folder / "bank").iterdir() if ".backup-" in p.name]
